# SPDX-License-Identifier: Apache-2.0
"""Claims about numbers that a test can make, and what is said when they fail."""

from __future__ import annotations

import contextlib
import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.errors import AmbiguousTargetError, ArgumentError
from numcheck.formats import get
from numcheck.measure import headroom, summarize, ulp_distance
from numcheck.testing.leaves import array_of, arrays

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.measure import Summary

__all__ = ["assert_close_in_format", "assert_finite", "assert_headroom"]


def assert_finite(value: object, name: str = "value") -> None:
    """Fail when an array in `value` holds a NaN or an Inf.

    Args:
        value: an array, or containers of arrays.
        name: what to call it in the message.

    Raises:
        AssertionError: naming each bad array with its counts.

    Example:
        >>> import numpy as np
        >>> assert_finite({"w": np.array([1.0, np.inf])}, "params")
        Traceback (most recent call last):
        AssertionError: params['w'] is not finite: 0 NaN, 1 +Inf, 0 -Inf of 2 elements
    """
    bad = [
        f"{name}{path} is not finite: {_counted(summary)}"
        for path, array in arrays(value)
        if not (summary := summarize(array)).is_finite
    ]
    if bad:
        raise AssertionError("\n".join(bad))


def _counted(s: Summary) -> str:
    return f"{s.nan} NaN, {s.pos_inf} +Inf, {s.neg_inf} -Inf of {s.n} elements"


def assert_headroom(
    target: Any,  # noqa: ANN401 - a function of any framework, or values
    *args: Any,  # noqa: ANN401 - the function's own
    bits: float,
    format: str | None = None,  # noqa: A002 - the word of the field
    **kwargs: Any,  # noqa: ANN401 - the function's own
) -> None:
    """Fail when a value comes closer than `bits` to overflowing its format.

    Args:
        target: arrays, or a function or module. A function is called with `args` and
            `kwargs` under ``level="trace"``, and every operator's output counts.
        *args: what to call it with.
        bits: log2(format.max / amax) that must be left.
        format: the format to hold every value against; by default each value's own.
        **kwargs: what to call it with.

    Raises:
        AssertionError: naming the tightest values and their places, those that are
            not finite first.
        ArgumentError: `bits` is no finite number, or values came with arguments.

    Example:
        >>> import numpy as np
        >>> assert_headroom(np.float16(40000.0), bits=2)
        Traceback (most recent call last):
        AssertionError: less than 2 bits of headroom left:
          value: +0.71 bits in float16, amax 4e+04
    """
    if not _is_number(bits) or not math.isfinite(bits):
        msg = f"bits must be a finite number, got {bits!r}"
        raise ArgumentError(msg)
    if not callable(target) and (args or kwargs):
        msg = (
            "values take no arguments, got "
            f"{', '.join([*map(repr, args), *kwargs])}; name a format by format='fp16'"
        )
        raise ArgumentError(msg)
    asked = None if format is None else get(format).name
    found = _traced(target, args, kwargs) if callable(target) else _held(target)
    tight = []
    for name, dtype, summary in found:
        left = headroom(summary, asked or dtype)
        if summary.is_finite is False:
            tight.append((-math.inf, f"  {name} is not finite: {_counted(summary)}"))
        elif left is not None and left < bits:
            held = f"{left:+.2f} bits in {asked or dtype}, amax {summary.amax:.4g}"
            tight.append((left, f"  {name}: {held}"))
    if tight:
        tight.sort(key=lambda row: row[0])
        rows = [row for _, row in tight[:10]]
        raise AssertionError(
            "\n".join([f"less than {_bits(bits)} of headroom left:", *rows])
        )


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real)  # those of numpy are


def _bits(number: float) -> str:
    return f"{number:g} bit" if number == 1 else f"{number:g} bits"


def _held(value: object) -> list[tuple[str, str, Summary]]:
    return [
        (f"value{path}", array.dtype.name, summarize(array))
        for path, array in arrays(value)
    ]


def _traced(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[str, str, Summary]]:
    from numcheck.adapters import instrument
    from numcheck.report.naming import location

    watched = instrument(target, level="trace", on_error="record", audit_first=False)
    try:
        watched(*args, **kwargs)
    finally:
        # Its monitor exists only once the first call has told the framework.
        with contextlib.suppress(AmbiguousTargetError):
            watched.numcheck.close()
    trace = watched.numcheck.trace
    if trace is None:
        msg = "nothing was recorded: the function runs no operator on arrays"
        raise ArgumentError(msg)
    held = trace.at(trace.steps[-1], trace.ranks[0]).summaries
    found = []
    for index, summary in held.items():
        site = trace.sites[index]
        line = f" ({location(site.source)})" if site.source else ""
        if _is_float(site.dtype):
            found.append((site.name + line, site.dtype, summary))
    return found


def _is_float(dtype: str) -> bool:
    return "float" in dtype or dtype in ("tf32", "hf32")


def assert_close_in_format(
    actual: object,
    desired: object,
    format: str | None = None,  # noqa: A002 - the word of the field
    *,
    ulps: float = 1,
) -> None:
    """Fail when two arrays differ by more than some values of a format.

    Args:
        actual: the array under test.
        desired: the reference, of the same shape.
        format: in whose values to count; by default that of `actual`.
        ulps: how many neighbouring values apart is still close. NaN equals NaN, and
            an Inf only the same Inf.

    Raises:
        AssertionError: naming the largest distance and its place.
        ArgumentError: `ulps` is negative or no number.

    Example:
        >>> import numpy as np
        >>> assert_close_in_format(np.float32(1.002), np.float32(1.0), "bfloat16")
    """
    if not _is_number(ulps) or not ulps >= 0:
        msg = f"ulps must be a number of at least 0, got {ulps!r}"
        raise ArgumentError(msg)
    a, b = array_of(actual), array_of(desired)
    if a.shape != b.shape:
        msg = f"shapes differ: {a.shape} against {b.shape}"
        raise AssertionError(msg)
    target = get(format if format is not None else a.dtype)
    if a.size == 0:
        return
    distance = np.asarray(ulp_distance(a, b, target))
    worst = np.unravel_index(int(np.argmax(distance)), a.shape)
    if distance[worst] > ulps:
        place = tuple(map(int, worst))
        msg = (
            f"{int(np.count_nonzero(distance > ulps))} of {a.size} elements differ by "
            f"more than {ulps:g} values of {target.name}; the most, "
            f"{float(distance[worst]):g}, at {place}: {float(a[worst])!r} against "
            f"{float(b[worst])!r}"
        )
        raise AssertionError(msg)
