# SPDX-License-Identifier: Apache-2.0
"""The module inside wrappers that change how it runs, not what it computes."""

from __future__ import annotations

import torch

__all__ = ["core_of"]

_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
}


def core_of(model: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside compiled and data-parallel wrappers.

    Matched by class name, since importing those classes costs seconds.

    Example:
        >>> inner = torch.nn.Linear(2, 1)
        >>> core_of(torch.nn.DataParallel(inner)) is inner
        True
    """
    attribute = _WRAPPERS.get(type(model).__name__)
    inner = None if attribute is None else getattr(model, attribute, None)
    return core_of(inner) if isinstance(inner, torch.nn.Module) else model
