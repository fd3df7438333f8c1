# SPDX-License-Identifier: Apache-2.0
"""One tensor or number in a dump, as a `Summary` and as a key to find it again by.

msprobe measures Max, Min, Mean and Norm, in the tensor's own dtype: a NaN hides every
Inf, and Mean and Norm may overflow though every element is finite. So only Max and
Min decide what a tensor held; Mean and Norm serve to recognise it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from numcheck.errors import DumpError
from numcheck.measure.summary import Summary
from numcheck.record.notice import notice

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from pathlib import Path

__all__ = ["Number", "Tensor", "flattened", "measured", "summary_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A scalar argument."""

    value: object

    @property
    def real(self) -> float | None:
        """The value as a number; None for a text, a flag or nothing."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            return _number_in(self.value)
        return float(self.value)


@dataclasses.dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument or result.

    Attributes:
        dtype: name of its format.
        shape: its shape.
        summary: what it held.
        requires_grad: whether gradients flow through it.
        marks: everything the dump says of its values, to recognise it by.
        file: name of the file that holds its values, in a tensor dump.
    """

    dtype: str
    shape: tuple[int, ...]
    summary: Summary
    requires_grad: bool
    marks: tuple[str, ...]
    file: str | None = None

    @property
    def key(self) -> Hashable:
        """Equal for the same tensor met twice."""
        return self.dtype, self.shape, self.marks

    @property
    def loose_key(self) -> Hashable:
        """Equal for reshaped and transposed views too, whose sums round otherwise."""
        extremes = self.marks[:2]
        if extremes == ("None", "None"):
            extremes = self.marks
        return self.dtype, self.summary.n, extremes

    @property
    def is_measured(self) -> bool:
        """Whether the dump holds its extremes, or all of it."""
        return self.file is not None or self.marks[:2] != ("None", "None")

    @property
    def is_known(self) -> bool:
        """Whether its values were measured at all."""
        return any(mark != "None" for mark in self.marks)


def flattened(value: Any) -> Iterator[Tensor | Number | None]:  # noqa: ANN401 - whatever the dump holds
    """Yield the tensors and numbers of an argument, depth first; None for None."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from flattened(item)
    elif not isinstance(value, dict):
        yield None if value is None else Number(value)
    elif "dtype" in value and "shape" in value:
        yield _tensor(value)
    elif "type" in value and "value" in value:
        yield Number(value["value"])
    else:
        for item in value.values():
            yield from flattened(item)


def _tensor(entry: dict[str, Any]) -> Tensor:
    shape = tuple(int(n) for n in entry["shape"])
    marks = [entry.get(k) for k in ("Max", "Min", "Mean", "Norm", "md5")]
    low, high = _float(entry.get("Min")), _float(entry.get("Max"))
    file = entry.get("data_name")
    return Tensor(
        dtype=str(entry["dtype"]).rpartition(".")[2].lower(),
        shape=shape,
        summary=summary_of(math.prod(shape), low, high),
        requires_grad=entry.get("requires_grad") is True,
        marks=tuple(repr(m) for m in marks),
        file=file if isinstance(file, str) else None,
    )


def summary_of(n: int, low: float | None, high: float | None) -> Summary:
    """Return what is certain of an array whose smallest and largest value are known.

    Args:
        n: number of elements.
        low: smallest value, NaN when any is; None when not measured.
        high: largest value, in the same sense.

    Example:
        >>> summary_of(4, -math.inf, 2.0).has_neg_inf
        True
        >>> summary_of(4, math.nan, math.nan).has_inf is None
        True
    """
    if n == 0:
        return Summary.empty()
    if low is None or high is None:
        return Summary(n=n)
    if math.isnan(low) or math.isnan(high):
        return Summary(n=n, low=math.nan, high=math.nan)
    finite = math.isfinite(low) and math.isfinite(high)
    magnitudes = sorted((abs(low), abs(high)))
    one_value = low == high
    return Summary(
        n=n,
        nan=0,
        pos_inf=_infinite(n, high == math.inf, every=low == math.inf),
        neg_inf=_infinite(n, low == -math.inf, every=high == -math.inf),
        zero=_zeros(n, low, high),
        low=low,
        high=high,
        amax=magnitudes[1] if finite else None,
        amin=magnitudes[0] if finite and _same_sign(low, high) else None,
        total=low * n if finite and one_value else None,
        total_sq=low * low * n if finite and one_value else None,
    )


def _infinite(n: int, some: bool, *, every: bool) -> int | None:  # noqa: FBT001 - a fact, not a switch
    if not some:
        return 0
    return n if every else None


def _zeros(n: int, low: float, high: float) -> int | None:
    if low == high == 0:
        return n
    return 0 if _same_sign(low, high) else None


def _same_sign(low: float, high: float) -> bool:
    return low > 0 or high < 0


def _float(value: object) -> float | None:
    if isinstance(value, int | float):  # True and False of a boolean tensor too
        return float(value)
    return _number_in(value)


def _number_in(value: object) -> float | None:
    """Return the number a text holds: some versions write numbers as texts."""
    if not isinstance(value, str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def measured(tensor: Tensor, folder: Path, notes: list[str]) -> Summary:
    """Return a tensor's summary, from its values where they lie beside the dump."""
    if tensor.file is None:
        return tensor.summary
    from numcheck.measure import summarize
    from numcheck.record.foreign.torch_file import load_tensor

    # Only the last part: a hostile name must not lead out of the folder.
    path = folder / tensor.file.replace("\\", "/").rpartition("/")[2]
    try:
        return summarize(load_tensor(path))
    except DumpError as error:
        notes.append(notice("unread.file", file=path.name, error=error))
        return tensor.summary
