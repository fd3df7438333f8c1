# SPDX-License-Identifier: Apache-2.0
"""The pages about formats and about single values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numcheck.calculator._plain import (
    bits_text,
    number,
    power,
    short,
    table,
    wrapped,
    yes_no,
)
from numcheck.formats import BlockFormat, aliases, block_names, get, lookup, names
from numcheck.report.messages import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numcheck.calculator._fate import Fate
    from numcheck.formats import Format

__all__ = ["format_data", "format_page", "formats_page", "range_page"]

_ATTRIBUTES = (
    "kind", "bits", "sign_bits", "exponent_bits", "mantissa_bits", "precision", "bias",
    "emin", "emax", "max", "min", "smallest_normal", "smallest_subnormal", "eps",
    "unit_roundoff", "overflow_threshold", "overflow_threshold_inclusive",
    "underflow_threshold", "underflow_inclusive", "has_inf", "has_nan", "has_zero",
    "has_neg_zero", "has_subnormals", "finite_values", "dynamic_range_octaves",
    "dynamic_range_normal_octaves", "native_rounding",
)  # fmt: skip
_BLOCK_ATTRIBUTES = (
    "block", "element_bits", "element_max", "element_emax", "element_smallest",
    "bits_per_value", "max_block_ratio", "max_block_ratio_octaves",
    "flush_ratio_octaves", "micro_exponents",
)  # fmt: skip


def formats_page(lang: str | None = None) -> str:
    """Return the list of all named formats.

    Example:
        >>> "bfloat16" in formats_page("en")
        True
    """

    def say(key: str) -> str:
        return text(f"calculator.formats.{key}", lang)

    scalar = table(
        [
            say(k)
            for k in ("name", "bits", "max", "normal", "smallest", "eps", "specials")
        ],
        (_scalar_row(get(name), lang) for name in names()),
    )
    block = table(
        [
            say(k)
            for k in ("name", "element", "scale", "block_size", "per_value", "ratio")
        ],
        (_block_row(_block(name)) for name in block_names()),
        left=3,
    )
    return "\n".join(
        [say("scalar"), "", scalar, "", say("block"), "", block, "", say("hint")]
    )


def format_page(fmt: Format | BlockFormat, lang: str | None = None) -> str:
    """Return all about one format.

    Example:
        >>> print(format_page(get("fp4"), "en").splitlines()[0])
        float4_e2m1fn — 4 bits: 1 sign, 2 exponent, 1 significand
    """
    if isinstance(fmt, BlockFormat):
        return _block_page(fmt, lang)

    def say(key: str, **fields: object) -> str:
        return text(f"calculator.format.{key}", lang, **fields)

    facts = [(say("max"), number(fmt.max))]
    if fmt.min != -fmt.max:
        facts.append((say("min"), number(fmt.min)))
    facts.append((say("overflow"), _overflow(fmt, lang)))
    facts += _small_end(fmt, lang)
    if fmt.kind == "integer":
        facts.append((say("step"), power(fmt.eps)))
    else:
        digits = number(round(fmt.precision * math.log10(2), 1))
        eps = say("eps_digits", eps=power(fmt.eps), digits=digits)
        facts.append((say("eps"), eps))
    octaves = f"{fmt.dynamic_range_octaves:.1f}"
    facts.append((say("range"), say("octaves", octaves=octaves)))
    facts.append((say("specials"), _specials(fmt, lang)))
    if fmt.native_rounding == "nearest_away":
        facts.append((say("rounding"), say("nearest_away")))
    if aliases(fmt.name):
        facts.append((say("aliases"), ", ".join(aliases(fmt.name))))
    return f"{wrapped(f'{fmt.name} — {_layout(fmt, lang)}')}\n\n{_facts(facts)}"


def format_data(fmt: Format | BlockFormat) -> dict[str, object]:
    """Return what `format_page` says, for JSON.

    Example:
        >>> format_data(get("e4m3"))["overflow_threshold"]
        464.0
    """
    if isinstance(fmt, BlockFormat):
        parts = {"element": fmt.element, "scale": fmt.scale}
        data: dict[str, object] = {"name": fmt.name, "kind": "block"}
        data |= {key: format_data(part) for key, part in parts.items()}
        if fmt.tensor_scale is not None:
            data["tensor_scale"] = fmt.tensor_scale.name
        return data | {key: getattr(fmt, key) for key in _BLOCK_ATTRIBUTES}
    data = {"name": fmt.name, "aliases": list(aliases(fmt.name))}
    return data | {key: getattr(fmt, key) for key in _ATTRIBUTES}


def range_page(fates: Sequence[Fate], lang: str | None = None) -> str:
    """Return what happens to each of several values.

    Example:
        >>> from numcheck.calculator._fate import fate_of
        >>> print(range_page([fate_of(464.0, "e4m3")], "en").splitlines()[0])
        464 is beyond the largest number and rounds to it: 448
    """
    paragraphs = [_fate_paragraph(fate, lang) for fate in fates]
    return "\n\n".join([*paragraphs, text("calculator.range.negative", lang)])


def _fate_paragraph(fate: Fate, lang: str | None) -> str:
    def say(key: str, **fields: object) -> str:
        return text(f"calculator.range.{key}", lang, **fields)

    error = fate.relative_error
    saturates = fate.result == fate.saturated and fate.outcome in ("overflow", "inf")
    what = say(
        f"{fate.outcome}_saturates" if saturates else fate.outcome,
        result=number(fate.result),
        saturated=number(fate.saturated),
        error="–" if error is None else f"{100 * error:.3g} %",
    )
    lines = [wrapped(f"{number(fate.value)} {what}", rest="  ")]
    known = [say("code", code=fate.code)] if fate.code else []
    if fate.outcome in ("rounded", "subnormal", "flushed"):
        ends = {"below": number(fate.below), "above": number(fate.above)}
        known.append(say("between", **ends))
    if known:
        lines.append("  " + text("calculator.also", lang).join(known))
    margins = ("headroom", "overflow_margin", "underflow_margin", "flush_margin")
    if fate.headroom is not None and fate.outcome != "absent":
        facts = [(say(key), bits_text(getattr(fate, key))) for key in margins]
        lines.append(_facts(facts))
    return "\n".join(lines)


def _scalar_row(fmt: Format, lang: str | None) -> list[str]:
    smallest = fmt.smallest_subnormal
    return [
        fmt.name,
        str(fmt.bits),
        short(fmt.max),
        short(fmt.smallest_normal),
        short(smallest),
        short(fmt.eps),
        _specials_cell(fmt, lang),
    ]


def _specials(fmt: Format, lang: str | None) -> str:
    claims = (fmt.has_inf, fmt.has_nan, fmt.has_neg_zero)
    return " ".join(yes_no(claim, lang) for claim in claims)


def _specials_cell(fmt: Format, lang: str | None) -> str:
    """Return the same with each answer under its column's word."""
    return " ".join(word.rjust(3) for word in _specials(fmt, lang).split())


def _block(name: str) -> BlockFormat:
    found = lookup(name)
    assert isinstance(found, BlockFormat)  # noqa: S101 - block_names names no other
    return found


def _block_row(fmt: BlockFormat) -> list[str]:
    tiled = isinstance(fmt.block, tuple)
    return [
        fmt.name,
        fmt.element.name,
        fmt.scale.name,
        "×".join(map(str, fmt.tile or ())) if tiled else str(fmt.block),
        number(round(fmt.bits_per_value, 3)),
        f"{fmt.max_block_ratio_octaves:.1f}",
    ]


def _layout(fmt: Format, lang: str | None) -> str:
    key = {
        "float": "layout",
        "tapered": "layout_tapered",
        "scale": "layout_scale",
        "integer": "layout_integer" if fmt.signed else "layout_unsigned",
    }[fmt.kind]
    return text(
        f"calculator.format.{key}",
        lang,
        bits=fmt.bits,
        sign=fmt.sign_bits,
        exponent=fmt.exponent_bits,
        mantissa=fmt.mantissa_bits,
        precision=fmt.precision,
        fraction=fmt.fraction_bits,
    )


def _overflow(fmt: Format, lang: str | None) -> str:
    def say(key: str, **fields: object) -> str:
        return text(f"calculator.format.{key}", lang, **fields)

    threshold = number(fmt.overflow_threshold)
    if math.isinf(fmt.overflow_threshold):
        when = say("overflow_never")
    elif fmt.overflow_threshold_inclusive:
        when = say("overflow_from", threshold=threshold)
    else:
        when = say("overflow_above", threshold=threshold)
    if fmt.has_inf:
        return say("overflow_inf", when=when)
    if fmt.has_nan and fmt.kind != "integer":
        return say("overflow_nan", when=when)
    return say("overflow_max", when=when, max=number(fmt.max))


def _small_end(fmt: Format, lang: str | None) -> list[tuple[str, str]]:
    def say(key: str, **fields: object) -> str:
        return text(f"calculator.format.{key}", lang, **fields)

    if fmt.kind == "integer":
        return []
    normal, smallest = power(fmt.smallest_normal), power(fmt.smallest_subnormal)
    facts = [(say("normal"), normal)]
    if fmt.has_subnormals:
        lost = say("subnormal_bits", value=smallest, normal=normal)
        facts.append((say("subnormal"), lost))
    if fmt.underflow_threshold:
        key = "flush_to" if fmt.underflow_inclusive else "flush_below"
        limit = say(key, threshold=power(fmt.underflow_threshold))
        facts.append((say("flush"), limit))
    return facts


def _block_page(fmt: BlockFormat, lang: str | None) -> str:
    def say(key: str, **fields: object) -> str:
        return text(f"calculator.block.{key}", lang, **fields)

    parts = {"element": fmt.element.name, "scale": fmt.scale.name}
    if isinstance(fmt.block, tuple):
        rows, columns = fmt.block
        layout = say("layout_tile", rows=rows, columns=columns, **parts)
    else:
        layout = say("layout", block=fmt.block, **parts)
    if fmt.tensor_scale is not None:
        layout += text("calculator.also", lang) + say(
            "tensor", scale=fmt.tensor_scale.name
        )
    if fmt.micro_exponents:
        counts = " + ".join(map(str, fmt.micro_exponents))
        layout += text("calculator.also", lang) + say("micro", counts=counts)
    first, last = fmt.flush_ratio_octaves
    octaves = f"{fmt.max_block_ratio_octaves:.1f}"
    facts = [
        (say("per_value"), number(round(fmt.bits_per_value, 3))),
        (say("element_max"), number(fmt.element_max)),
        (say("ratio"), say("ratio_text", octaves=octaves, first=first, last=last)),
        (say("scale_max"), number(fmt.scale.max)),
    ]
    return f"{wrapped(f'{fmt.name} — {layout}')}\n\n{_facts(facts)}"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    from rich.cells import cell_len

    facts = list(facts)
    label = max(cell_len(name) for name, _ in facts)
    rest = " " * (label + 4)
    return "\n".join(
        wrapped(value, f"  {name}{' ' * (label - cell_len(name))}  ", rest)
        for name, value in facts
    )
