# SPDX-License-Identifier: Apache-2.0
"""Short names of sites for people."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from numcheck.report.messages import has_text, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import Field
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site, SourceLine

__all__ = [
    "chain_name",
    "for_people",
    "held",
    "location",
    "scalar_kind",
    "scalar_name",
    "short_op",
    "source_path",
]

_SCOPE_SEPARATOR: Final = re.compile(r"[./]")
_KEPT_SCOPES: Final = 2
_SERIES: Final = ("headroom", "embedding_norm")
_OF_PROGRAM: Final = re.compile(r"(.*\S) (\([^()]*\))")
_IN_PHASE: Final = re.compile(r"(forward|backward|recompute|optimizer) (.+) (\d+)")


def short_op(op: str) -> str:
    """Return an operator's name without namespace and overload.

    Example:
        >>> short_op("aten.log.default"), short_op("dot_general"), short_op("input:x.y")
        ('log', 'dot_general', 'input:x.y')
    """
    parts = op.split(".")
    return parts[1] if ":" not in op and len(parts) >= 2 else op


def chain_name(site: Site) -> str:
    """Return the end of the module path and the operator.

    Example:
        >>> from numcheck.record.site import Site
        >>> chain_name(Site(0, "aten.mm.default", "forward", scope="net.layers.3.mlp"))
        '3.mlp mm'
    """
    if site.kind != "operator" or not site.scope:
        return short_op(site.op)
    path = _SCOPE_SEPARATOR.split(site.scope)
    return f"{'.'.join(path[-_KEPT_SCOPES:])} {short_op(site.op)}"


def held(summary: Summary | None) -> str | None:
    """Return ``NaN``, ``Inf``, ``+Inf`` or ``-Inf`` for what is not finite."""
    if summary is None or summary.kind is None:
        return None
    names = {"nan": "NaN", "inf": "±Inf", "+inf": "Inf", "-inf": "-Inf"}
    return names[summary.kind]


def source_path(file: str) -> str:
    """Return a file's path from the working directory where it lies below that."""
    if not os.path.isabs(file):  # noqa: PTH117 - a program's file may be `<string>`
        return file
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith(os.pardir) else relative


def scalar_kind(name: str) -> str:
    """Return what a scalar measures, without what it is of and of which program.

    Example:
        >>> scalar_kind("headroom forward mlp/mm 1 (jax)"), scalar_kind("loss (torch)")
        ('headroom', 'loss')
    """
    return name.split(" ", 1)[0]


def scalar_name(name: str, lang: str | None = None) -> str:
    """Return the name for people of a scalar; any other name stays as it is.

    Example:
        >>> scalar_name("gradient_norm", "en"), scalar_name("my_metric", "en")
        ('gradient norm', 'my_metric')
        >>> scalar_name("headroom backward mlp/mm 1 (jax)", "en")
        'headroom of mlp/mm (backward) (jax)'
    """
    found = _OF_PROGRAM.fullmatch(name)
    own, program = (found[1], f" {found[2]}") if found else (name, "")
    kind, _, place = own.partition(" ")
    if kind in _SERIES:
        if not place:
            return name
        told = text(f"report.series.{kind}", lang, name=_placed(place, lang))
    else:
        key = f"report.scalar.{own}"
        told = text(key, lang) if has_text(key) else own
    return told + program


def _placed(name: str, lang: str | None) -> str:
    """Return where a value of a phase is, without the number of a first one."""
    found = _IN_PHASE.fullmatch(name)
    if found is None:
        return name
    phase = text(f"report.phase.{found[1]}", lang)
    place = found[2] if found[3] == "1" else f"{found[2]} {found[3]}"
    return text("report.in_phase", lang, name=place, phase=phase)


def for_people(fields: Mapping[str, Field], lang: str | None) -> dict[str, Field]:
    """Return fields with a name that people know in place of a scalar's own.

    Example:
        >>> for_people({"name": "backward mlp/mm 1", "n": 3}, "en")
        {'name': 'mlp/mm (backward)', 'n': 3}
        >>> for_people({"name": "rows"}, "en")
        {'name': 'parts of the batch'}
    """
    name = fields.get("name")
    if not isinstance(name, str):
        return dict(fields)
    if has_text(key := f"page.experiment.{name}"):
        return {**fields, "name": text(key, lang)}
    return {**fields, "name": _placed(scalar_name(name, lang), lang)}


def location(source: SourceLine) -> str:
    """Return ``file:line``, as editors read it, and the function in any language."""
    place = f"{source_path(source.file)}:{source.line}"
    return f"{place} {source.function}" if source.function else place
