# SPDX-License-Identifier: Apache-2.0
"""PyTorch dtypes as number formats: names, limits, and which can be measured."""

from __future__ import annotations

import functools
from typing import Final

import torch

__all__ = [
    "LOW_PRECISION",
    "MONOTONE",
    "format_name",
    "is_measurable",
    "smallest_normal",
]

LOW_PRECISION: Final = frozenset(
    {
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2fnuz,
    }
)
"""Floating-point formats narrower than float32 that programs compute in."""

MONOTONE: Final = frozenset({"float16", "bfloat16", "float32", "float64"})
"""Formats between which a cast keeps order: the extremes of the cast values are the
cast extremes. What narrower formats make of values beyond their range differs."""

_COMPLEX_PARTS: Final = {
    torch.complex32: "float16",
    torch.complex64: "float32",
    torch.complex128: "float64",
}


@functools.cache
def format_name(dtype: torch.dtype) -> str:
    """Return the name by which `numcheck.formats` knows a dtype.

    A complex dtype goes by the format of its parts.

    Example:
        >>> format_name(torch.bfloat16), format_name(torch.complex64)
        ('bfloat16', 'float32')
    """
    return _COMPLEX_PARTS.get(dtype) or str(dtype).removeprefix("torch.")


@functools.cache
def is_measurable(dtype: torch.dtype) -> bool:
    """Whether elements of this dtype can be widened to float32 or float64."""
    if dtype.is_complex or dtype == torch.bool:
        return True
    try:
        torch.zeros(1, dtype=torch.uint8).expand(16).contiguous().view(dtype).double()
    except (RuntimeError, TypeError):
        return False
    return True


@functools.cache
def smallest_normal(dtype: torch.dtype) -> float:
    """Return the smallest positive normal value; 0 for integers, which have none."""
    if not dtype.is_floating_point:
        return 0.0
    return float(torch.finfo(dtype).smallest_normal)
