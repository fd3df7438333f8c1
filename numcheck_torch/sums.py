# SPDX-License-Identifier: Apache-2.0
"""Sum and sum of squares of chosen values, for their mean and deviation.

They are launched while the step runs and read at its end with everything else. Formats
narrower than float32 are summed in float32, float64 in its own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import torch

from numcheck.record.columns import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SELDOM", "Sums", "is_costly", "summed"]

SELDOM: Final = 4
"""Steps of which one sums what is costly."""

_ROWS: Final = 256
_PART: Final = 1 << 18
"""Elements summed at once on hosts: the second reading comes from the cache."""
_ROW: Final = 256
"""Elements of one norm on hosts, which add up one by one and lose bits in long rows."""
_FEW: Final = 1 << 12
"""Elements of which no more than a few hundred add up one by one in a product."""
_SHORT: Final = 1 << 16
_KEPT_BITS: Final = 20
"""How far above the smallest normal number squares lie in the mean, so that those
below it are no loss."""


def is_costly(value: torch.Tensor) -> bool:
    """Whether a value is long and has to be widened before it is summed.

    Hosts have no kernel that does both at once; it takes longer than a matrix product
    in such a format leaves time for.

    Example:
        >>> is_costly(torch.zeros(1 << 18)), is_costly(torch.zeros(1 << 18).half())
        (False, True)
    """
    is_narrow = value.dtype.itemsize < 4
    return is_narrow and value.device.type == "cpu" and value.numel() > _SHORT


class Sums:
    """Preallocated rows of (sum, sum of squares) on one device, in one format.

    Args:
        dtype: float32 or float64.
        device: where the values are.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype = dtype
        self._device = device
        self._is_host = device.type == "cpu"
        self._blocks: list[torch.Tensor] = []
        self._cells: list[torch.Tensor] = []
        self._used = 0
        self._taken: dict[int, tuple[int, int]] = {}

    def take(self, site: int, value: torch.Tensor) -> None:
        """Sum the value of a site, unless that is done.

        Args:
            site: its site.
            value: real and not empty, without gradient.
        """
        if site in self._taken:
            return
        before = self._used
        if not self._is_host:
            self._add_on_device(value)
        elif value.numel() <= _PART or not value.is_contiguous():
            self._add(value.to(self._dtype))
        else:
            for part in value.view(-1).split(_PART):
                self._add(part.to(self._dtype))
        self._taken[site] = value.numel(), self._used - before

    @property
    def is_used(self) -> bool:
        """Whether anything was summed since it was read."""
        return self._used > 0

    def rows(self) -> torch.Tensor:
        """Return what was summed, still on the device."""
        return torch.cat(self._blocks[: -(-self._used // _ROWS)])[: self._used]

    def read(self, rows: torch.Tensor) -> dict[int, tuple[float, float]]:
        """Return sum and sum of squares by site, and forget them.

        Args:
            rows: what `rows` returned, on the host.
        """
        values: list[tuple[float, float]] = rows.tolist()
        found: dict[int, tuple[float, float]] = {}
        first = 0
        for site, (n, parts) in self._taken.items():
            row = values[first : first + parts]
            if not self._is_host:
                row = [(total, norm * norm) for total, norm in row]
            found[site] = summed(row, n, self._dtype)
            first += parts
        self._taken.clear()
        self._used = 0
        return found

    def _add(self, value: torch.Tensor) -> None:
        total, total_sq = self._next()
        torch.sum(value, dim=(), out=total)
        is_flat = value.is_contiguous()
        if is_flat and value.numel() <= _FEW:
            flat = value.view(-1)
            torch.dot(flat, flat, out=total_sq)
        elif is_flat and value.numel() % _ROW == 0:
            norms = torch.linalg.vector_norm(value.view(-1, _ROW), dim=1)
            torch.sum(norms.square_(), dim=(), out=total_sq)
        else:
            torch.sum(value.square(), dim=(), out=total_sq)

    def _add_on_device(self, value: torch.Tensor) -> None:
        """Take the norm in place of squares; kernels widen as they read."""
        total, norm = self._next()
        torch.sum(value, dim=(), dtype=self._dtype, out=total)
        torch.linalg.vector_norm(value, dtype=self._dtype, out=norm)

    def _next(self) -> tuple[torch.Tensor, torch.Tensor]:
        place = 2 * self._used
        if place == len(self._cells):
            self._grow()
        self._used += 1
        return self._cells[place], self._cells[place + 1]

    def _grow(self) -> None:
        # A table made in inference mode could not be written to outside of it.
        with torch.inference_mode(mode=False), torch.no_grad():
            block = torch.empty(_ROWS, 2, dtype=self._dtype, device=self._device)
            self._blocks.append(block)
            self._cells.extend(block.view(-1).unbind(0))


def summed(
    parts: Sequence[tuple[float, float]], n: int, dtype: torch.dtype
) -> tuple[float, float]:
    """Return both sums of all parts; `UNKNOWN` for one that left its range.

    Args:
        parts: sum and sum of squares of each.
        n: number of elements.
        dtype: format they were summed in.

    Example:
        >>> summed([(1.0, 1.0), (2.0, 4.0)], 2, torch.float32)
        (3.0, 5.0)
    """
    least = n * torch.finfo(dtype).tiny * 2.0**_KEPT_BITS
    # Not `fsum`, which refuses sums of both infinities.
    total = sum(part for part, _ in parts)
    total_sq = sum(part for _, part in parts)
    return (
        total if math.isfinite(total) else UNKNOWN,
        total_sq if least <= total_sq < math.inf else UNKNOWN,
    )
