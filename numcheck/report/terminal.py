# SPDX-License-Identifier: Apache-2.0
"""The terminal report: one card for each finding, and what was watched."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.diagnose.finding import Finding
    from numcheck.report.content import Content

__all__ = ["card", "cards", "line_width", "terminal_report", "wants_colour"]

_NARROWEST: Final = 40
_WIDEST: Final = 120


def card(
    finding: Finding,
    lang: str | None = None,
    width: int | None = None,
    colour: bool | None = None,  # noqa: FBT001 - None is a third value
) -> str:
    """Return one finding as a card for the terminal.

    Args:
        finding: what to show.
        lang: ``en`` or ``zh``; by default NUMCHECK_LANG, else the locale.
        width: cells in a line; by default the terminal's, within 40 to 120.
        colour: with ANSI colours; by default only when the output is a terminal and
            NO_COLOR is not set.

    Returns:
        Lines without trailing blanks, ending in a newline.

    Example:
        >>> from numcheck.diagnose.finding import Finding
        >>> from numcheck.record.site import Site
        >>> site = Site(0, "aten.log.default", "forward", scope="head")
        >>> print(card(Finding("N301", "error", site, step=7, kind="nan"), "en", 80))
        error[N301]: ...
          --> head  (aten.log.default)
           = note: first NaN at step 7, forward
           = cause: not decided by what was seen
           = help: run `numcheck explain N301` for more
        <BLANKLINE>
    """
    from numcheck.report.cardlines import card_lines
    from numcheck.report.styled import drawn

    width = line_width(width)
    return drawn(card_lines(finding, lang, width), width, colour=wants_colour(colour))


def cards(
    findings: Iterable[Finding],
    lang: str | None = None,
    width: int | None = None,
    colour: bool | None = None,  # noqa: FBT001 - None is a third value
    *,
    ranks: int = 1,
) -> str:
    """Return findings as cards, with a blank line in between.

    What broke in the same step for the same reason, and is mended in the same way, is
    told in full once: of the others, only what and where.

    Args:
        findings: the most important first.
        lang: as for `card`.
        width: as for `card`.
        colour: as for `card`.
        ranks: processes of the run.

    Example:
        >>> from numcheck.diagnose.finding import Cause, Finding
        >>> from numcheck.record.site import Site
        >>> why = Cause("precision", "N151", "certain")
        >>> sites = Site(0, "mm", "backward"), Site(1, "mm", "backward")
        >>> two = [Finding("N102", "error", s, 1, "+inf", cause=why) for s in sites]
        >>> cards(two, "en", 80).count("N151, as above")
        1
    """
    from numcheck.report.cardlines import card_lines, follower_lines
    from numcheck.report.styled import drawn

    width, colour = line_width(width), wants_colour(colour)
    told: list[Finding] = []
    parts = []
    for finding in findings:
        follows = any(_is_alike(finding, known) for known in told)
        lines = follower_lines if follows else card_lines
        parts.append(drawn(lines(finding, lang, width, ranks), width, colour=colour))
        told.append(finding)
    return "\n".join(parts)


def _is_alike(finding: Finding, other: Finding) -> bool:
    """Whether the cause and the help of one finding are those of another."""
    return finding.cause is not None and all(
        getattr(finding, name) == getattr(other, name)
        for name in ("step", "rank", "severity", "cause", "help")
    )


def terminal_report(
    content: Content,
    lang: str | None = None,
    width: int | None = None,
    colour: bool | None = None,  # noqa: FBT001 - None is a third value
) -> str:
    """Return all cards, how many findings there are, and what was watched.

    Args:
        content: findings and what is known around them.
        lang: as for `card`.
        width: as for `card`.
        colour: as for `card`.
    """
    from numcheck.report.coverage import coverage_lines
    from numcheck.report.styled import drawn

    width, colour = line_width(width), wants_colour(colour)
    ranks = len(content.trace.ranks) if content.trace else 1
    watched = coverage_lines(content.findings, content.coverage, lang, width)
    parts = [drawn(watched, width, colour=colour)]
    if content.findings:
        parts.insert(0, cards(content.findings, lang, width, colour, ranks=ranks))
    return "\n".join(parts)


def line_width(wanted: int | None) -> int:
    """Return the cells of a line: as asked for, else the terminal's, within bounds."""
    if wanted is None:
        wanted = min(shutil.get_terminal_size().columns, _WIDEST)
    return max(wanted, _NARROWEST)


def wants_colour(wanted: bool | None) -> bool:  # noqa: FBT001 - None is a third value
    """Return whether to colour: as asked for, else on a terminal without NO_COLOR."""
    if wanted is not None:
        return wanted
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()
