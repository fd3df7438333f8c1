# SPDX-License-Identifier: Apache-2.0
"""Copies of the parameters as they were at the first watched step, if small enough."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["copy_of_parameters"]

SHARE = 0.02
"""Part of the machine's memory that the copies may take."""


def copy_of_parameters(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of the parameters on the host; empty when they are too large."""
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > SHARE * _memory():
        return {}
    return {
        name: parameter.detach().to("cpu", copy=True)
        for name, parameter in model.named_parameters()
    }


def _memory() -> int:
    """Return the bytes of memory of this machine; 0 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
