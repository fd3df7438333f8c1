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

__all__ = ["joins", "partners", "why_not_replayed", "wrappers_of"]

_SHARDING = {"FSDPModule", "FullyShardedDataParallel"}
_SPEAKING = {"SyncBatchNorm"}


def why_not_replayed(model: torch.nn.Module) -> str | None:
    """Return why the model cannot run in one process alone; None when it can.

    Example:
        >>> import torch
        >>> why_not_replayed(torch.nn.Linear(2, 1)) is None
        True
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    if _is_sharded(model):
        return "refusal.sharded"
    for module in model.modules():
        names = _names(module)
        if names & _SPEAKING and module.training:
            return notice("refusal.synchronised", module=type(module).__name__)
    return None


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
    if any(_names(module) & _SHARDING for module in model.modules()):
        return True
    return any(hasattr(p, "device_mesh") for p in model.parameters())


def _names(module: torch.nn.Module) -> set[str]:
    return {base.__name__ for base in type(module).__mro__}
