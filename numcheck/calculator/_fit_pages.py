# SPDX-License-Identifier: Apache-2.0
"""The pages about arrays in files."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final, Literal

from numcheck.calculator._picture import picture
from numcheck.calculator._plain import (
    number,
    share,
    speaks_unicode,
    table,
    width,
    wrapped,
)
from numcheck.report.messages import text
from numcheck.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.measure import Fit, FormatFit

__all__ = [
    "MAX_FLUSHED",
    "MIN_SQNR_DB",
    "Fitted",
    "Remark",
    "fit_data",
    "fit_list_page",
    "fit_page",
]

MAX_FLUSHED: Final = 1e-3
"""Largest share of non-zero elements that becomes zero in a format that fits."""
MIN_SQNR_DB: Final = 15.0
"""Smallest signal to quantisation noise ratio of a format that fits."""
Remark = Literal["empty", "no_finite", "all_zero", "some_finite", "integers", "bools"]


@dataclasses.dataclass(frozen=True, slots=True)
class Fitted:
    """One array of a file and how formats suit it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    fit: Fit

    @property
    def remark(self) -> Remark | None:
        """What a reader must know before taking the advice; None for plain floats."""
        summary = self.fit.summary
        if summary.n == 0:
            return "empty"
        if summary.amax is None:
            return "no_finite"
        if summary.amax == 0:
            return "all_zero"
        if self.dtype == "bool":
            return "bools"
        if self.dtype.startswith(("int", "uint")):
            return "integers"
        return "some_finite" if summary.finite != summary.n else None

    @property
    def exact_in(self) -> tuple[str, ...]:
        """The narrowest formats that hold every element as it is, without rounding."""
        exact = [row.format for row in self.fit.formats if _is_exact(row)]
        narrowest = min((fmt.bits for fmt in exact), default=0)
        return tuple(fmt.name for fmt in exact if fmt.bits == narrowest)

    @property
    def decides_nothing(self) -> bool:
        """Whether the array holds no number to choose a format by."""
        return not self.fit.summary.amax


def fit_page(item: Fitted, lang: str | None = None) -> str:
    """Return all about one array: what it holds, a picture, a row a format."""

    def say(key: str, **fields: object) -> str:
        return text(f"calculator.fit.{key}", lang, **fields)

    summary = item.fit.summary
    shape = "×".join(map(str, item.shape)) or "()"
    name = printable(item.name)
    head = say("array", name=name, dtype=item.dtype, shape=shape, n=summary.n)
    infinite = (summary.pos_inf or 0) + (summary.neg_inf or 0)
    holds = say(
        "counts",
        nan=summary.nan or 0,
        inf=infinite,
        zero=summary.zero or 0,
        amax=number(summary.amax),
        amin=number(summary.amin),
    )
    remark = [item.remark] if item.remark else []
    remarks = [say(f"remark_{key}", dtype=item.dtype) for key in remark]
    if item.decides_nothing:
        return "\n".join([head, holds, "", *map(wrapped, remarks)])
    unicode = speaks_unicode()
    solid, dashed = ("━", "╌") if unicode else ("=", ".")
    drawn = picture(
        summary.exponents or {},
        [row.format for row in item.fit.formats],
        width(),
        unicode=unicode,
    )
    legend = say("picture_legend", solid=solid, dashed=dashed)
    rows = [_row(row, lang) for row in item.fit.formats]
    keys = ("format", "verdict", "scale", "overflow", "flushed", "subnormal", "sqnr")
    notes = [
        say("exact"),
        say("criterion", flushed=share(MAX_FLUSHED), sqnr=f"{MIN_SQNR_DB:g}"),
    ]
    if any(row.scale_log2 for row in item.fit.formats):
        notes.append(say("scaled"))
    told = [wrapped(line, rest="  ") for line in (head, holds, *remarks)]
    return "\n".join(
        [
            *told, "", wrapped(say("picture")), "", drawn, "", wrapped(legend), "",
            table([say(key) for key in keys], rows, left=2), "",
            *(wrapped(note, rest="  ") for note in notes), "", _advice(item, lang),
        ]
    )  # fmt: skip


def fit_list_page(items: Sequence[Fitted], file: str, lang: str | None = None) -> str:
    """Return one line for each array of a file."""

    def say(key: str, **fields: object) -> str:
        return text(f"calculator.fit.{key}", lang, **fields)

    keys = ("tensor", "dtype", "elements", "amax", "amin", "best")
    rows = [
        [
            printable(item.name),
            item.dtype,
            str(item.fit.summary.n),
            number(item.fit.summary.amax),
            number(item.fit.summary.amin),
            _best(item, lang),
        ]
        for item in items
    ]
    listed = table([say(key) for key in keys], rows, left=2)
    head = say("tensors", n=len(items), file=file)
    return "\n".join([head, "", listed, "", say("detail")])


def fit_data(item: Fitted) -> dict[str, object]:
    """Return what `fit_page` says, for JSON."""
    found = item.fit
    scaled = found.recommended_scaled
    return {
        "name": item.name,
        "dtype": item.dtype,
        "shape": item.shape,
        "remark": item.remark,
        "basis": found.basis,
        "summary": found.summary,
        "formats": [
            {
                "format": row.format.name,
                "verdict": row.verdict,
                "as_is": row.as_is,
                "scale_log2": row.scale_log2,
                "scaled": row.scaled,
            }
            for row in found.formats
        ],
        "criterion": {"max_flushed": MAX_FLUSHED, "min_sqnr_db": MIN_SQNR_DB},
        "exact": list(item.exact_in),
        "recommended": found.recommended.name if found.recommended else None,
        "recommended_scaled": scaled
        and {"format": scaled.format.name, "scale_log2": scaled.scale_log2},
    }


def _row(row: FormatFit, lang: str | None) -> list[str]:
    shares = row.as_is if row.verdict == "fits" else row.scaled
    scale = 0 if row.verdict == "fits" else row.scale_log2
    return [
        row.format.name,
        text(f"calculator.fit.{row.verdict}", lang),
        f"2^{scale}" if scale else "1",
        share(shares.overflow.high),
        share(shares.flushed.high),
        share(shares.subnormal.high),
        f"{shares.sqnr_db.high:.1f}",
    ]


def _best(item: Fitted, lang: str | None) -> str:
    found = item.fit
    if item.decides_nothing:
        return "–"
    if item.remark in ("integers", "bools"):
        return text("calculator.fit.best_as_it_is", lang, dtype=item.dtype)
    if found.recommended is not None:
        return found.recommended.name
    scaled = found.recommended_scaled
    if scaled is None:
        return text("calculator.fit.best_none", lang)
    fields = {"format": scaled.format.name, "scale": scaled.scale_log2}
    return text("calculator.fit.best_scaled", lang, **fields)


def _is_exact(row: FormatFit) -> bool:
    shares = row.as_is
    lost = max(shares.overflow.high, shares.flushed.high)
    return lost == 0 and shares.sqnr_db.low == math.inf


def _advice(item: Fitted, lang: str | None) -> str:
    def say(key: str, **fields: object) -> str:
        return text(f"calculator.fit.{key}", lang, **fields)

    found = item.fit
    scaled = found.recommended_scaled
    lines = []
    if found.recommended is not None:
        lines.append(say("recommend", format=found.recommended.name))
    if scaled is not None:
        key = "recommend_scaled" if lines else "recommend_only_scaled"
        fields = {"format": scaled.format.name, "scale": scaled.scale_log2}
        if lines:
            fields["bits"] = scaled.format.bits
        lines.append(say(key, **fields))
    lines = lines or [say("recommend_none")]
    if item.exact_in:
        names = text("calculator.fit.and", lang).join(item.exact_in)
        lines.append(say("exact_in", formats=names))
    return "\n".join(wrapped(line, rest="  ") for line in lines)
