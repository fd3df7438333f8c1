# SPDX-License-Identifier: Apache-2.0
"""A tensor's `Summary`, measured on the tensor's own device.

`measure` launches the reductions and returns their results still on the device, so
that any number of tensors costs one transfer; `read` turns them into summaries.
`summarize` is both for one tensor.

Every value is widened to float32 first (float64 stays), which is exact for every
narrower format. Accelerators without float64 get float32 sums.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

import torch

from numcheck.measure.summary import Summary
from numcheck_torch.dtypes import is_measurable, smallest_normal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Measurement", "measure", "read", "stored", "summarize", "to_host"]

WITHOUT_FLOAT64: Final = frozenset({"npu", "mps"})
# Elements handled at once; bounds the temporaries of one measurement to a few times
# 32 MiB, whatever the tensor's size.
CHUNK: Final = 1 << 22
_FLOAT64_BIAS: Final = 1100  # more than the largest magnitude of any exponent


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """Reductions of one tensor, still on its device.

    Attributes:
        n: number of elements.
        counts: int64 rows, one for each chunk: NaN, +Inf, -Inf, zero, subnormal.
        values: float rows: low, high, amax, amin, total, total_sq.
        exponents: counts by binade, offset by `_FLOAT64_BIAS`, or None.
    """

    n: int
    counts: torch.Tensor
    values: torch.Tensor
    exponents: torch.Tensor | None = None


def summarize(tensor: torch.Tensor, *, exponents: bool = False) -> Summary:
    """Return what a tensor holds, as counts and extremes.

    Args:
        tensor: any floating-point, complex (both parts are counted), integer or bool
            tensor, of any shape, on any device.
        exponents: also count the finite non-zero elements by binade.

    Returns:
        The summary; for an empty tensor `Summary.empty()`; for a dtype that cannot be
        read element by element, only the number of elements.

    Example:
        >>> s = summarize(torch.tensor([1.0, -2.0, float("inf")]))
        >>> s.pos_inf, s.amax, s.amin, s.low
        (1, 2.0, 1.0, -2.0)
    """
    measurement = measure(tensor, exponents=exponents)
    if measurement is None:
        return Summary.empty() if not tensor.numel() else Summary(n=tensor.numel())
    return read([measurement])[0]


def measure(tensor: torch.Tensor, *, exponents: bool = False) -> Measurement | None:
    """Launch the reductions of one tensor; None when it is empty or not measurable."""
    if not tensor.numel() or not is_measurable(tensor.dtype):
        return None
    flat = stored(tensor.detach()).reshape(-1)
    if not flat.numel():
        return None
    normal = smallest_normal(flat.dtype)
    rows = [_chunk(_widened(part), normal) for part in flat.split(CHUNK)]
    # Where float64 is missing, so is the kernel that takes exponents apart.
    counted = exponents and flat.device.type not in WITHOUT_FLOAT64
    histogram = _exponents(flat) if counted else None
    return Measurement(
        n=flat.numel(),
        counts=torch.stack([counts for counts, _ in rows]),
        values=torch.stack([values for _, values in rows]),
        exponents=histogram,
    )


def read(measurements: Sequence[Measurement]) -> list[Summary]:
    """Return the summaries, with one transfer for each kind of row and device."""
    counts = to_host([m.counts for m in measurements])
    values = to_host([m.values for m in measurements])
    bins = iter(to_host([m.exponents for m in measurements if m.exponents is not None]))
    return [
        _unpack(m, c, v, None if m.exponents is None else next(bins))
        for m, c, v in zip(measurements, counts, values, strict=True)
    ]


def _unpack(
    measurement: Measurement,
    counts: torch.Tensor,
    values: torch.Tensor,
    exponents: torch.Tensor | None,
) -> Summary:
    """Return the summary that a measurement's rows, on the host, stand for."""
    nan, pos_inf, neg_inf, zero, subnormal = counts.sum(0).tolist()
    low, high = float(values[:, 0].amin()), float(values[:, 1].amax())
    amax, amin = float(values[:, 2].amax()), float(values[:, 3].amin())
    finite = measurement.n - nan - pos_inf - neg_inf
    return Summary(
        n=measurement.n,
        nan=nan,
        pos_inf=pos_inf,
        neg_inf=neg_inf,
        zero=zero,
        subnormal=subnormal,
        low=low,
        high=high,
        amax=amax if finite else None,
        amin=amin if finite > zero else None,
        total=_known(values[:, 4]),
        total_sq=_known(values[:, 5]),
        exponents=None if exponents is None else _binades(exponents),
    )


def _known(sums: torch.Tensor) -> float | None:
    """Return the sum of the chunks' sums; None when a float32 one overflowed."""
    total = float(sums.double().sum())
    lost = sums.dtype == torch.float32 and not math.isfinite(total)
    return None if lost else total


def stored(tensor: torch.Tensor) -> torch.Tensor:
    """Return the real numbers a tensor stores, as a dense tensor.

    A sparse tensor's implicit zeros are left out; both parts of complex ones count.

    Example:
        >>> stored(torch.tensor([1 + 2j])).tolist()
        [[1.0, 2.0]]
    """
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce().values()
    elif tensor.layout != torch.strided:
        tensor = tensor.values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor


def _widened(flat: torch.Tensor) -> torch.Tensor:
    if flat.dtype in (torch.float64, torch.float32):
        return flat
    if not flat.dtype.is_floating_point and flat.device.type not in WITHOUT_FLOAT64:
        return flat.double()
    return flat.float()


def _chunk(x: torch.Tensor, normal: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the counts and the values of one chunk, in float32 or float64."""
    wide = torch.float32 if x.device.type in WITHOUT_FLOAT64 else torch.float64
    magnitude = x.abs()
    is_nan = x.isnan()
    is_zero = x == 0
    is_finite = magnitude < math.inf
    finite = torch.where(is_finite, x, 0).to(wide)
    counts = torch.stack(
        [
            is_nan.sum(),
            (x == math.inf).sum(),
            (x == -math.inf).sum(),
            is_zero.sum(),
            ((magnitude < normal) & ~is_zero).sum(),
        ]
    )
    values = torch.stack(
        [
            x.amin().to(wide),
            x.amax().to(wide),
            torch.where(is_finite, magnitude, 0).amax().to(wide),
            torch.where(is_zero | is_nan, math.inf, magnitude).amin().to(wide),
            finite.sum(),
            finite.square().sum(),
        ]
    )
    return counts, values


def _exponents(flat: torch.Tensor) -> torch.Tensor:
    bins = torch.zeros(2 * _FLOAT64_BIAS, dtype=torch.int64, device=flat.device)
    for part in flat.split(CHUNK):
        x = _widened(part)
        counted = (x.abs() < math.inf) & (x != 0)
        # frexp gives a fraction in [0.5, 1), so floor(log2|x|) is one less.
        binade = torch.frexp(torch.where(counted, x, 1)).exponent.long() - 1
        bins.scatter_add_(0, binade + _FLOAT64_BIAS, counted.long())
    return bins


def _binades(bins: torch.Tensor) -> dict[int, int]:
    (used,) = bins.nonzero(as_tuple=True)
    return {int(i) - _FLOAT64_BIAS: int(bins[i]) for i in used}


def to_host(rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the rows on the host, with one transfer for each device and dtype."""
    groups: dict[tuple[torch.device, torch.dtype, int], list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault((row.device, row.dtype, row.dim()), []).append(i)
    found: list[torch.Tensor] = list(rows)
    for members in groups.values():
        host = torch.cat([rows[i] for i in members]).cpu()
        parts = host.split([rows[i].shape[0] for i in members])
        for i, part in zip(members, parts, strict=True):
            found[i] = part
    return found
