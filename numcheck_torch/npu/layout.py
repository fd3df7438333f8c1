# SPDX-License-Identifier: Apache-2.0
"""Private memory layouts of an NPU: tensors whose storage holds padding.

A tensor in the layout FRACTAL_NZ is padded to full tiles. Operators never show the
padding, but kernels compute on it: log of padding zeros sets the overflow flag and
harms nothing. Raw storage is never to be read as values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck_torch.npu.door import DEVICE, ask, torch_npu

if TYPE_CHECKING:
    import torch

__all__ = ["has_padding", "layout"]

_PLAIN: Final = frozenset({-1, 0, 1, 2, 16, 27, 30, 35, 47})
"""Layouts without padding: undefined, NCHW, NHWC, ND, HWCN, NDHWC, NCDHW, NC, NCL."""


def layout(tensor: torch.Tensor) -> int | None:
    """Return the number of a tensor's layout; None where it is not on an NPU."""
    if tensor.device.type != DEVICE:
        return None
    found = ask(torch_npu(), "get_npu_format", tensor)
    return None if found is None else int(found)


def has_padding(tensor: torch.Tensor) -> bool:
    """Whether a tensor's storage holds more than its elements.

    Example:
        >>> import torch
        >>> has_padding(torch.zeros(2))
        False
    """
    found = layout(tensor)
    return found is not None and found not in _PLAIN
