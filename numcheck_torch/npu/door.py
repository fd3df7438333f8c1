# SPDX-License-Identifier: Apache-2.0
"""The way to an NPU: through PyTorch's own names, never by importing torch_npu.

Importing torch_npu without its driver and toolkit fails, and PyTorch loads it by
itself where it is installed. So it is used when it is there and never asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DEVICE", "ask", "has_npu", "is_npu", "module", "torch_npu"]

DEVICE = "npu"


def module() -> Any:
    """Return ``torch.npu``; None where PyTorch has no such device."""
    return getattr(torch, DEVICE, None)


def torch_npu() -> Any:
    """Return torch_npu when the program loaded it, whole; else None."""
    found = sys.modules.get("torch_npu")
    return found if hasattr(found, "npu") else None


def has_npu() -> bool:
    """Whether an NPU answers."""
    npu = module()
    return npu is not None and bool(ask(npu, "is_available"))


def is_npu(values: Iterable[torch.Tensor] | torch.device) -> bool:
    """Whether a device, or one of several tensors', is an NPU.

    Example:
        >>> is_npu([torch.zeros(2)])
        False
    """
    if isinstance(values, torch.device):
        return values.type == DEVICE
    return any(v.device.type == DEVICE for v in values)


def ask(owner: Any, path: str, *arguments: Any) -> Any:
    """Return what a function or setting says; None where it is missing or refuses.

    Versions differ in what they offer, and a driver that is not there answers with a
    RuntimeError or an AssertionError.

    Args:
        owner: where to start; None gives None.
        path: names from there, dotted.
        *arguments: what to call it with, when it can be called.
    """
    value = owner
    for name in path.split("."):
        value = getattr(value, name, None)
    if not callable(value):
        return value
    try:
        return value(*arguments)
    except (RuntimeError, AssertionError, ImportError, OSError):
        return None
