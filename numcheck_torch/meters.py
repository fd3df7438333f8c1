# SPDX-License-Identifier: Apache-2.0
"""How a recorder measures values: in full, or their extremes only.

A meter launches reductions while the step runs and reads all of them at its end, with
one transfer for each dtype and device.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import torch

from numcheck.measure.summary import Summary
from numcheck.record.columns import SummaryColumns, of_extremes
from numcheck_torch.dtypes import is_measurable
from numcheck_torch.statistics import measure, read, stored, to_host
from numcheck_torch.sums import SELDOM, Sums, is_costly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from numcheck_torch.statistics import Measurement

    Array = npt.NDArray[np.float64]

__all__ = ["ExtremesMeter", "FullMeter", "Meter", "extremes", "may_go_together"]

_ROWS: Final = 1024
_SMALL: Final = 1 << 15
_SHORT: Final = 1 << 11
_ROW: Final = 1 << 6
"""Elements side by side from which on parts of a value are read as rows."""
_QUICK_HALVES: Final = frozenset({torch.float32, torch.float64})


class Meter(Protocol):
    """Measures values now, and says what they were when the step is over.

    Attributes:
        summed: after `read`, sum and sum of squares of what `sum_up` was given, see
            `numcheck.record.columns`.
    """

    summed: dict[int, tuple[float, float]]

    def take(self, site: int, tensor: torch.Tensor) -> None:
        """Measure the value of a site."""
        ...

    def take_together(self, sites: list[int], tensors: list[torch.Tensor]) -> None:
        """Measure short values of one shape, dtype and device, one for each site."""
        ...

    def know(self, site: int, summary: Summary) -> None:
        """Take what is known of a site's value without measuring it."""
        ...

    def sum_up(self, site: int, tensor: torch.Tensor) -> None:
        """Measure the sums of a site as well, where `take` does not."""
        ...

    def adopt(self, sites: Sequence[tuple[int, int]], rows: torch.Tensor) -> None:
        """Take over extremes that somebody else measured on the device."""
        ...

    def read(self) -> Mapping[int, Summary]:
        """Return what was measured, by site, and forget it."""
        ...


class _Adopted:
    """Extremes that somebody else measured, still on their devices."""

    def __init__(self) -> None:
        self.summed: dict[int, tuple[float, float]] = {}
        self._known: dict[int, Summary] = {}
        # Numbers side by side: tuples by the hundred keep the garbage collector busy.
        self._sites: list[int] = []
        self._sizes: list[int] = []
        self._rows: list[torch.Tensor] = []

    def adopt(self, sites: Sequence[tuple[int, int]], rows: torch.Tensor) -> None:
        """Take over measured values.

        Args:
            sites: (site, number of elements) for each row.
            rows: smallest and largest, of shape (sites, 2), float32 or float64.
        """
        for site, n in sites:
            self._sites.append(site)
            self._sizes.append(n)
        # Memory of a replayed CUDA graph is written again by the next run.
        self._rows.append(rows if rows.device.type == "cpu" else rows.clone())

    def know(self, site: int, summary: Summary) -> None:
        """Take what is known of a site's value without measuring it."""
        self._known[site] = summary

    def read_adopted(self) -> tuple[list[int], list[int], list[Array]]:
        """Return sites, numbers of elements and rows of what was taken over."""
        rows = [rows.double().numpy() for rows in to_host(self._rows)]
        found = self._sites, self._sizes, rows
        self._sites, self._sizes, self._rows = [], [], []
        return found


class FullMeter(_Adopted):
    """Counts, extremes and sums of every value; for replays and audits."""

    def __init__(self, *, exponents: bool = False) -> None:
        super().__init__()
        self._exponents = exponents
        self._measured: list[int] = []
        self._pending: list[Measurement] = []

    def take(self, site: int, tensor: torch.Tensor) -> None:
        """Measure the value of a site."""
        measurement = measure(tensor, exponents=self._exponents)
        if measurement is None:
            self._known[site] = _unmeasured(tensor)
            return
        self._measured.append(site)
        self._pending.append(measurement)

    def take_together(self, sites: list[int], tensors: list[torch.Tensor]) -> None:
        """Measure values one for each site."""
        for site, tensor in zip(sites, tensors, strict=True):
            self.take(site, tensor)

    def sum_up(self, site: int, tensor: torch.Tensor) -> None:
        """Do nothing: every measurement has its sums."""

    def read(self) -> dict[int, Summary]:
        """Return what was measured, by site, and forget it."""
        found = dict(zip(self._measured, read(self._pending), strict=True))
        found.update(self._known)
        self._measured, self._pending, self._known = [], [], {}
        sites, sizes, blocks = self.read_adopted()
        ends = _stacked(blocks).tolist()
        for site, n, (low, high) in zip(sites, sizes, ends, strict=True):
            found[site] = of_extremes(n, low, high)
        return found


class ExtremesMeter(_Adopted):
    """Smallest and largest of every floating-point value, sums of a few; every step.

    NaN wins over both, as in PyTorch's reductions, so NaN and Inf are always seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tables: dict[tuple[torch.dtype, torch.device], _Table] = {}
        self._sums: dict[tuple[torch.dtype, torch.device], Sums] = {}
        self._reads = 0
        # Of the last step: site and number of elements of each row.
        self._last: tuple[list[int], list[int]] = [], []
        self._rows_of: dict[int, int] = {}

    def take(self, site: int, tensor: torch.Tensor) -> None:
        """Measure the value of a site; integers are left out."""
        dtype = tensor.dtype
        known = self._tables.get((dtype, tensor.device))
        if known is not None and tensor.layout is torch.strided and tensor.numel():
            known.take(site, tensor)
        elif not tensor.numel():
            self._known[site] = Summary.empty()
        elif dtype.is_complex or tensor.layout != torch.strided:
            self.take(site, stored(tensor))
        elif dtype.is_floating_point and is_measurable(dtype):
            key = dtype, tensor.device
            table = self._tables.get(key)
            if table is None:
                table = self._tables[key] = _Table(dtype, tensor.device)
            table.take(site, tensor)
        else:
            self._known[site] = Summary(n=tensor.numel())

    def take_together(self, sites: list[int], tensors: list[torch.Tensor]) -> None:
        """Measure short values of one shape, dtype and device, one for each site."""
        if not (may_go_together(tensors[0]) and _are_alike(tensors)):
            for site, tensor in zip(sites, tensors, strict=True):
                self.take(site, tensor)
            return
        n = tensors[0].numel()
        rows = torch.stack(tensors).view(len(tensors), n)
        low, high = (rows[:, 0],) * 2 if n == 1 else (rows.amin(1), rows.amax(1))
        self._sites += sites
        self._sizes += [n] * len(sites)
        self._rows.append(torch.stack((low, high), 1))

    def sum_up(self, site: int, tensor: torch.Tensor) -> None:
        """Sum the value of a site; integers are left out, and what is empty.

        What is costly to sum is summed in one step of a few.
        """
        dtype = tensor.dtype
        if dtype.is_complex or tensor.layout != torch.strided:
            tensor = stored(tensor)
        if not tensor.numel() or not dtype.is_floating_point:
            return
        if not is_measurable(dtype) or (self._reads % SELDOM and is_costly(tensor)):
            return
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        sums = self._sums.get((wide, tensor.device))
        if sums is None:
            sums = self._sums[wide, tensor.device] = Sums(wide, tensor.device)
        sums.take(site, _packed(tensor.float() if dtype.itemsize < 2 else tensor))

    def read(self) -> SummaryColumns:
        """Return what was measured, by site, and forget it."""
        self.summed = {}
        self._reads += 1
        tables = [t for t in self._tables.values() if t.is_used]
        sums = [s for s in self._sums.values() if s.is_used]
        hosts = to_host([*(t.rows() for t in tables), *(s.rows() for s in sums)])
        for part, rows in zip(sums, hosts[len(tables) :], strict=True):
            self.summed.update(part.read(rows))
        others = self._adopt_known()
        sites, sizes, blocks = self.read_adopted()
        for table, rows in zip(tables, hosts, strict=False):
            more, their_sizes = table.read()
            sites += more
            sizes += their_sizes
            # Widened on the host: not every device has float64.
            blocks.append(rows.double().numpy())
        # Steps alike share what says which row is whose.
        if (sites, sizes) != self._last:
            self._last = sites, sizes
            self._rows_of = {site: row for row, site in enumerate(sites)}
        return SummaryColumns(self._rows_of, self._last[1], _stacked(blocks), others)

    def _adopt_known(self) -> dict[int, Summary]:
        """Take known extremes for measured ones; return what else is known."""
        known, self._known = self._known, {}
        others = {s: k for s, k in known.items() if k.low is None or k.high is None}
        ends = {s: k for s, k in known.items() if s not in others}
        if ends:
            self._sites += ends
            self._sizes += [k.n for k in ends.values()]
            rows = [(k.low, k.high) for k in ends.values()]
            self._rows.append(torch.tensor(rows, dtype=torch.float64))
        return others


class _Table:
    """Preallocated rows of (low, high) for one dtype on one device."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        # Formats without kernels of their own are widened, which is exact.
        narrow = dtype.itemsize < 2
        self._dtype = torch.float32 if narrow else dtype
        self._device = device
        self._cells: list[torch.Tensor] = []
        self._blocks: list[torch.Tensor] = []
        self._sites: list[int] = []
        self._sizes: list[int] = []
        self._has_aminmax = device.type != "npu"
        # On hosts, aminmax reads long rows slower than its two halves do.
        is_slow = device.type == "cpu" and self._dtype in _QUICK_HALVES
        self._together = _SMALL if is_slow else math.inf

    def take(self, site: int, tensor: torch.Tensor) -> None:
        row = 2 * len(self._sites)
        if row == len(self._cells):
            self._grow()
        n = tensor.numel()
        self._sites.append(site)
        self._sizes.append(n)
        if tensor.requires_grad:
            # Flattened parameters are written to with gradients on.
            tensor = tensor.detach()
        is_flat = tensor.is_contiguous()
        if not is_flat:
            tensor = _packed(tensor)
            is_flat = tensor.is_contiguous()
        if tensor.dtype != self._dtype:
            tensor = tensor.to(self._dtype)
        low, high = self._cells[row], self._cells[row + 1]
        has_rows = is_flat or (tensor.stride(-1) == 1 and tensor.shape[-1] >= _ROW)
        try:
            if self._has_aminmax and (n < self._together or not has_rows):
                torch.aminmax(tensor, out=(low, high))
            else:
                torch.amin(tensor, dim=(), out=low)
                torch.amax(tensor, dim=(), out=high)
        except RuntimeError:
            if tensor._is_zerotensor():
                # A tangent that is zero throughout has no memory of its own.
                low.zero_()
                high.zero_()
                return
            self._sites.pop()
            self._sizes.pop()
            # Sharded models give memory back while others still hold the tensor.
            if tensor.untyped_storage().nbytes():
                raise

    @property
    def is_used(self) -> bool:
        return bool(self._sites)

    def rows(self) -> torch.Tensor:
        used = -(-len(self._sites) // _ROWS)
        return torch.cat(self._blocks[:used])[: len(self._sites)]

    def read(self) -> tuple[list[int], list[int]]:
        """Return site and number of elements of each row, and forget them."""
        found = self._sites, self._sizes
        self._sites, self._sizes = [], []
        return found

    def _grow(self) -> None:
        # A table made in inference mode could not be written to outside of it.
        with torch.inference_mode(mode=False), torch.no_grad():
            block = torch.empty(_ROWS, 2, dtype=self._dtype, device=self._device)
            self._blocks.append(block)
            self._cells.extend(block.view(-1).unbind(0))


def may_go_together(tensor: torch.Tensor) -> bool:
    """Whether a value is short enough to be copied beside others and measured there.

    Example:
        >>> may_go_together(torch.ones(3)), may_go_together(torch.ones(1 << 20))
        (True, False)
    """
    n, dtype = tensor.numel(), tensor.dtype
    return (
        0 < n <= _SHORT
        and dtype.is_floating_point
        and dtype.itemsize > 1
        and tensor.layout is torch.strided
    )


def _are_alike(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether values of one shape and dtype lie on one device in one layout."""
    device, layout = tensors[0].device, tensors[0].layout
    return all(t.layout is layout and t.device == device for t in tensors)


def extremes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the smallest and the largest element, still on the device.

    Args:
        tensor: floating-point or complex, not empty.

    Returns:
        Two values in float32, or float64 for a float64 tensor; NaN when there is one.

    Example:
        >>> extremes(torch.tensor([3.0, -1.0], dtype=torch.float16))
        tensor([-1.,  3.])
    """
    tensor = stored(tensor)
    if tensor.dtype.itemsize < 2:
        tensor = tensor.float()
    value = _packed(tensor)
    if tensor.device.type == "npu":
        pair = torch.stack([value.amin(), value.amax()])
    else:
        pair = torch.stack(list(torch.aminmax(value)))
    return pair if pair.dtype == torch.float64 else pair.float()


def _packed(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense but permuted tensor as a flat one, which reduces much faster."""
    if tensor.is_contiguous():
        return tensor
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return tensor
        expected *= size
    return tensor.as_strided((expected,), (1,))


def _stacked(blocks: list[Array]) -> Array:
    return np.concatenate(blocks) if blocks else np.empty((0, 2))


def _unmeasured(tensor: torch.Tensor) -> Summary:
    return Summary(n=tensor.numel()) if tensor.numel() else Summary.empty()
