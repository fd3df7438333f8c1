# SPDX-License-Identifier: Apache-2.0
"""What the page shows of one tensor: exponent histogram, counts, extremes, spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numcheck.formats import get
from numcheck.report.figures import binades
from numcheck.report.interchange import number_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.diagnose.finding import Finding
    from numcheck.measure.summary import Summary
    from numcheck.record.trace import Trace

__all__ = ["distributions", "format_ranges"]

_SHOWN: Final = (
    "nan",
    "pos_inf",
    "neg_inf",
    "zero",
    "subnormal",
    "amax",
    "amin",
    "mean",
    "std",
)
_COMPARED: Final = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def format_ranges() -> list[dict[str, Any]]:
    """Return the exponent ranges that a histogram is held against.

    Example:
        >>> format_ranges()[0]["emax"], format_ranges()[0]["lowest"]
        (15, -24)
    """
    return [
        {
            "name": known.name,
            "emax": known.emax,
            "emin": known.emin,
            "lowest": known.emin - known.mantissa_bits,
            "max": known.max,
        }
        for known in map(get, _COMPARED)
    ]


def distributions(trace: Trace, findings: Iterable[Finding]) -> dict[int, Any]:
    """Return one measurement of each site: of a finding's step, else of the last.

    A measurement with an exponent histogram is preferred to one without.
    """
    failing = {(f.step, f.rank) for f in findings}
    latest = sorted(
        trace.summaries, key=lambda key: (key in failing, key[0]), reverse=True
    )
    chosen: dict[int, tuple[int, Summary]] = {}
    settled: set[int] = set()
    for key in latest:
        for index, summary in trace.summaries[key].items():
            if summary.exponents is not None and index not in settled:
                settled.add(index)
                chosen[index] = key[0], summary
            elif index not in chosen:
                chosen[index] = key[0], summary
    return {i: _row(*measured) for i, measured in sorted(chosen.items())}


def _row(step: int, summary: Summary) -> dict[str, Any]:
    row: dict[str, Any] = {"step": step, "n": summary.n}
    for name in _SHOWN:
        value = getattr(summary, name)
        if value is not None:
            row[name] = number_to_json(value)
    lowest, counts = binades(summary.exponents or {})
    if any(counts):
        row |= {"e0": lowest, "counts": counts}
    return row
