# SPDX-License-Identifier: Apache-2.0
"""The commands ``numcheck report`` and ``numcheck explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numcheck.report.busy import busy
from numcheck.shared_options import (
    colour_option,
    lang_option,
    outputs_option,
    width_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.report.content import Content

__all__ = ["explain", "report", "triage"]


@click.command()
@click.argument("run", metavar="RUN", type=click.Path())
@outputs_option
@lang_option
@width_option
@colour_option
@click.pass_context
def report(
    context: click.Context,
    run: str,
    outputs: tuple[str, ...],
    lang: str | None,
    width: int | None,
    colour: bool | None,  # noqa: FBT001 - click passes options by keyword
) -> None:
    """Diagnose the run folder RUN with today's rules and show the report."""
    from numcheck.report.terminal import terminal_report

    content = _written(run, outputs, lang)
    click.echo(terminal_report(content, lang, width, colour), nl=False, color=True)
    context.exit(_code(content))


def _written(run: str, outputs: tuple[str, ...], lang: str | None) -> Content:
    """Read a run again and write its report to files; return what it holds."""
    from numcheck.report.past_run import content_of_run
    from numcheck.report.writing import check_ending, write_file

    targets = [check_ending(path) for path in outputs]
    with busy(run):
        content = content_of_run(run)
    for target in targets:
        with busy(str(target)) as progress:
            write_file(content, target, lang, progress)
    return content


def _code(content: Content) -> int:
    return int(any(finding.severity != "note" for finding in content.findings))


@click.command()
@click.argument("run", metavar="RUN", type=click.Path())
@outputs_option
@lang_option
@width_option
@click.pass_context
def triage(
    context: click.Context,
    run: str,
    outputs: tuple[str, ...],
    lang: str | None,
    width: int | None,
) -> None:
    """Walk through ten questions about the run folder RUN."""
    from numcheck.report.triage import triage_text

    content = _written(run, outputs, lang)
    click.echo(triage_text(content, lang, width), nl=False)
    context.exit(_code(content))


@click.command()
@click.argument("rule", metavar="[ID]", required=False)
@lang_option
@colour_option
def explain(rule: str | None, lang: str | None, colour: bool | None) -> None:  # noqa: FBT001 - click passes options by keyword
    """Explain the rule ID (such as N102): what it means, an example, what to change."""
    from numcheck.report.explaining import explanation, rule_list

    show: Callable[..., str] = rule_list if rule is None else explanation
    arguments = () if rule is None else (rule,)
    click.echo(show(*arguments, lang=lang, colour=colour), nl=False, color=True)
