# SPDX-License-Identifier: Apache-2.0
"""What of a distributed model can be run again by one process alone."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from torch import distributed

from numcheck.record.notice import notice
from numcheck_torch.unwrap import core_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

__all__ = [
    "has_unreduced",
    "holds_back",
    "is_spread",
    "joins",
    "partners",
    "sharded_modules",
    "why_not_replayed",
    "wrappers_of",
]

_SHARDING = {"FSDPModule", "FullyShardedDataParallel"}


def why_not_replayed(model: torch.nn.Module) -> str | None:
    """Return why the model's step is not run again at all; None when it can be.

    Example:
        >>> import torch
        >>> why_not_replayed(torch.nn.Linear(2, 1)) is None
        True
    """
    for module in model.modules():
        if "FullyShardedDataParallel" in _names(module):
            return notice("refusal.flattened", module=type(module).__name__)
    return None


def sharded_modules(model: torch.nn.Module) -> list[Any]:
    """Return the modules that ``fully_shard`` (FSDP2) was applied to."""
    return [m for m in model.modules() if "FSDPModule" in _names(m)]


def holds_back(model: torch.nn.Module) -> bool:
    """Whether gradients of a sharded model wait to be averaged with later ones."""
    groups = [g for m in sharded_modules(model) for g in _groups(m)]
    return any(has_unreduced(p) for group in groups for p in group.fsdp_params)


def has_unreduced(held: Any) -> bool:
    """Whether one parameter of a sharded model has a gradient that is not averaged."""
    whole = getattr(held, "_unsharded_param", None)
    is_left = whole is not None and whole.grad is not None
    return is_left or held.unsharded_accumulated_grad is not None


def _groups(module: Any) -> list[Any]:
    found: list[Any] = module._get_fsdp_state()._fsdp_param_groups
    return found


def is_spread(model: torch.nn.Module) -> bool:
    """Whether parameters of the model are distributed over several processes."""
    return any(hasattr(p, "device_mesh") for p in model.parameters())


def partners(
    model: torch.nn.Module, called: Iterable[torch.nn.Module]
) -> list[int] | None:
    """Return the ranks that train the model together; None when it is not shared.

    Args:
        model: the module without wrappers.
        called: what the program calls, perhaps a wrapper.
    """
    for wrapper in [*called, *wrappers_of(model)]:
        if "DistributedDataParallel" in _names(wrapper):
            group: Any = wrapper.process_group
            return distributed.get_process_group_ranks(group)
    if _is_sharded(model):
        return list(range(distributed.get_world_size()))
    return None


def joins(called: Iterable[torch.nn.Module]) -> bool:
    """Whether ranks may run out of data at different times (``Join``)."""
    configs = (getattr(wrapper, "_join_config", None) for wrapper in called)
    return any(bool(getattr(config, "enable", False)) for config in configs)


def wrappers_of(model: torch.nn.Module) -> list[Any]:
    """Return the living data-parallel wrappers of a module that was watched first."""
    name = "DistributedDataParallel"
    found = [o for o in gc.get_objects() if type(o).__name__ == name]
    return [o for o in found if "_modules" in o.__dict__ and core_of(o) is model]


def _is_sharded(model: torch.nn.Module) -> bool:
    return is_spread(model) or any(_names(m) & _SHARDING for m in model.modules())


def _names(module: torch.nn.Module) -> set[str]:
    return {base.__name__ for base in type(module).__mro__}
