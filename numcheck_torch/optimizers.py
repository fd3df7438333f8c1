# SPDX-License-Identifier: Apache-2.0
"""Which optimizers train the watched parameters, and with which settings."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Collection

    from numcheck.diagnose.incident import Setting

__all__ = ["find_optimizers", "parameters_of", "settings_of", "trains"]

_NUMBERS = ("lr", "momentum", "eps", "weight_decay", "alpha")


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the parameters of every group."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def trains(optimizer: torch.optim.Optimizer, parameters: Collection[int]) -> bool:
    """Whether the optimizer updates one of the parameters, given by identity."""
    return any(id(p) in parameters for p in parameters_of(optimizer))


def find_optimizers(parameters: Collection[int]) -> list[torch.optim.Optimizer]:
    """Return the living optimizers that update one of the parameters.

    Example:
        >>> w = torch.nn.Parameter(torch.zeros(2))
        >>> sgd = torch.optim.SGD([w], lr=0.1)
        >>> find_optimizers({id(w)}) == [sgd]
        True
    """
    # By type, not isinstance: proxies of other libraries run code when asked.
    found = [o for o in gc.get_objects() if issubclass(type(o), torch.optim.Optimizer)]
    return [o for o in found if hasattr(o, "param_groups") and trains(o, parameters)]


def settings_of(optimizer: torch.optim.Optimizer) -> dict[str, Setting]:
    """Return the optimizer's class and numbers, of its first group."""
    settings: dict[str, Setting] = {"optimizer": type(optimizer).__name__}
    group: dict[str, Any] = optimizer.param_groups[0] if optimizer.param_groups else {}
    for name in _NUMBERS:
        value = group.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            settings[name] = float(value)
        elif isinstance(value, torch.Tensor) and value.numel() == 1:
            settings[name] = float(value)
    betas = group.get("betas")
    if isinstance(betas, tuple | list) and len(betas) == 2:
        settings["beta1"], settings["beta2"] = float(betas[0]), float(betas[1])
    return settings
