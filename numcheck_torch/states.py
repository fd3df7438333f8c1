# SPDX-License-Identifier: Apache-2.0
"""The bits of small states that a model keeps in few bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from numcheck.diagnose.still_watch import LARGEST
from numcheck_torch.kinds import is_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["small_states"]


def small_states(model: torch.nn.Module) -> Mapping[str, bytes]:
    """Return the bits of the model's small buffers in less than 32 bits, by name.

    Example:
        >>> model = torch.nn.Module()
        >>> model.register_buffer("count", torch.ones(2, dtype=torch.bfloat16))
        >>> model.register_buffer("mean", torch.ones(2))
        >>> {name: bits.hex() for name, bits in small_states(model).items()}
        {'count': '803f803f'}
    """
    return {
        name: _bits(buffer)
        for name, buffer in model.named_buffers()
        if _is_small_and_coarse(buffer)
    }


def _is_small_and_coarse(buffer: torch.Tensor) -> bool:
    is_coarse = buffer.is_floating_point() and buffer.dtype.itemsize < 4
    is_here = is_plain(type(buffer)) and not buffer.is_meta
    return is_coarse and is_here and 0 < buffer.numel() <= LARGEST


def _bits(buffer: torch.Tensor) -> bytes:
    return buffer.detach().reshape(-1).view(torch.uint8).cpu().numpy().tobytes()
