# SPDX-License-Identifier: Apache-2.0
"""What ``numcheck profiles`` prints."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from numcheck.report.messages import has_text, text
from numcheck.simulation.loading import profile_names
from numcheck.simulation.profile import DTYPES

if TYPE_CHECKING:
    from numcheck.simulation.profile import Arithmetic, Profile

__all__ = ["list_page", "profile_data", "profile_page"]

_ROUNDINGS = ("input", "right", "gradient", "accumulator", "output")


def list_page(lang: str | None = None) -> str:
    """Return the names of all profiles and what they stand for.

    Example:
        >>> "ascend910a" in list_page("en")
        True
    """
    rows = [(n, text(f"simulate.profile.{n}", lang)) for n in profile_names()]
    head = (text("simulate.name", lang), text("simulate.meaning", lang))
    lines = _columns([head, *rows])
    return "\n".join([*lines, "", text("simulate.hint", lang)])


def profile_page(profile: Profile, lang: str | None = None) -> str:
    """Return what a profile does to which operators.

    Example:
        >>> from numcheck.simulation import load
        >>> print(profile_page(load("tpu-bf16"), "en").splitlines()[-2])
        attention, conv, matmul  on float32: factors to bfloat16
    """
    key = f"simulate.profile.{profile.name}"
    title = text(key, lang) if has_text(key) else ""
    lines = [f"{profile.name} — {title}" if title else profile.name, ""]
    rows = []
    for rule in profile.rules:
        families = ", ".join(sorted(rule.families)) or text("simulate.all", lang)
        where = ""
        if rule.dtypes != DTYPES:
            where = f"{text('simulate.dtypes', lang)} {', '.join(rule.dtypes)}: "
        rows.append((families, where + _said(rule.arithmetic, lang)))
    return "\n".join([*lines, *_columns(rows)])


def profile_data(profile: Profile) -> dict[str, Any]:
    """Return what `profile_page` says, for JSON.

    Example:
        >>> from numcheck.simulation import load
        >>> profile_data(load("mxfp4"))["rules"][0]["input"]["format"]
        'mxfp4_e2m1'
    """
    rules = [
        {
            "families": sorted(rule.families),
            "dtypes": list(rule.dtypes),
            **dataclasses.asdict(rule.arithmetic),
        }
        for rule in profile.rules
    ]
    return {"name": profile.name, "rules": rules}


def _said(arithmetic: Arithmetic, lang: str | None) -> str:
    parts = []
    for key in _ROUNDINGS:
        rounding = getattr(arithmetic, key)
        if rounding is not None:
            fields = {"format": rounding.format}
            if key == "accumulator":
                fields["chunk"] = str(arithmetic.chunk)
            parts.append(text(f"simulate.{key}", lang, **fields))
    flags = {
        "saturate": arithmetic.saturate,
        "nan_to_zero": arithmetic.nan_to_zero,
        "truncate": arithmetic.fused == "truncate",
    }
    parts += [text(f"simulate.{key}", lang) for key, is_on in flags.items() if is_on]
    return "; ".join(parts) or text("simulate.plain", lang)


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    from rich.cells import cell_len

    width = max(cell_len(left) for left, _ in rows)
    return [f"{left}{' ' * (width - cell_len(left))}  {right}" for left, right in rows]
