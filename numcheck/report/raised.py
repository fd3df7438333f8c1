# SPDX-License-Identifier: Apache-2.0
"""What an exception or a warning says: a line that stands alone, then the cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.diagnose.finding import Finding

__all__ = ["fault_text", "raised_text", "summary_line"]


def raised_text(findings: Sequence[Finding]) -> str:
    """Return the summary of the first finding, then the card of each.

    Tools that show the first line alone, such as pytest's short summary and a log's
    list of errors, then show the most important.

    Args:
        findings: at least one, the most important first.
    """
    from numcheck.report.terminal import cards

    return f"{summary_line(findings[0])}\n\n{cards(findings, colour=False)}"


def summary_line(finding: Finding, lang: str | None = None) -> str:
    """Return level, rule, what broke and where, in one line.

    Example:
        >>> from numcheck.diagnose.finding import Finding
        >>> from numcheck.record.site import Site, SourceLine
        >>> line = SourceLine("head.py", 12, "forward", "y = x.log()")
        >>> site = Site(0, "aten.log.default", "forward", source=line)
        >>> kind = {"kind": "-inf"}
        >>> found = Finding("N301", "error", site, 7, "-inf", fields=kind)
        >>> print(summary_line(found, "en"))
        error[N301]: logarithm of zero or of a negative number gave -Inf, at head.py:12
    """
    from numcheck.report.naming import source_path
    from numcheck.report.printable import printable
    from numcheck.report.prose import Prose

    prose = Prose(finding, lang)
    source = finding.site.source
    place = prose.where()
    if source is not None:
        place = printable(f"{source_path(source.file)}:{source.line}")
    whole = "".join(prose.headline())
    return prose.say("report.summary_line", headline=whole, place=place)


def fault_text(where: str, lang: str | None = None) -> str:
    """Return in one line that a part of numcheck failed by its own fault.

    Args:
        where: key of the text that names the part.
        lang: as for `numcheck.report.messages.text`.

    Example:
        >>> fault_text("fault.capture", "en")[:59]
        'note[N901]: numcheck itself failed in the capture of a call'
    """
    from numcheck.report.messages import text

    level = text("report.level.note", lang)
    headline = text("report.headline", lang, level=level, id="N901")
    return headline + text("rule.N901.title", lang, where=where)
