# SPDX-License-Identifier: Apache-2.0
"""The command ``numcheck``. Each subcommand loads its module only when it is used."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
import traceback
from typing import TYPE_CHECKING

import click

from numcheck.command_help import language_of, spoken
from numcheck.encodable import make_writable
from numcheck.errors import ArgumentError, NonFiniteError, NumcheckError
from numcheck.report.messages import LANGUAGES, language, text
from numcheck.shared_options import lang_option
from numcheck.told_errors import in_words_of
from numcheck.usage_errors import usage_error

if TYPE_CHECKING:
    from numcheck.report.messages import Language

__all__ = ["main"]

COMMANDS = {
    "compare": "numcheck.comparison.commands:compare",
    "data": "numcheck.datacheck.commands:data",
    "demo": "numcheck.demo:demo",
    "doctor": "numcheck.doctor:doctor",
    "explain": "numcheck.report.commands:explain",
    "fit": "numcheck.calculator.commands:fit",
    "formats": "numcheck.calculator.commands:formats",
    "import": "numcheck.importing:import_",
    "profiles": "numcheck.simulation.commands:profiles",
    "range": "numcheck.calculator.commands:range_",
    "report": "numcheck.report.commands:report",
    "triage": "numcheck.report.commands:triage",
    "run": "numcheck.running:run",
}


class _Lazy(click.Group):
    """A group whose commands are imported when they are called or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name; None when there is none."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return spoken(command, cmd_name, language_of(ctx))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; of a mistyped one, say which it may have been meant to be.

        Raises:
            UsageError: there is none of that name.
        """
        name = args[0] if args else ""
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        if name not in COMMANDS and near and not ctx.resilient_parsing:
            msg = f"No such command {name!r}. Did you mean {near[0]!r}?"
            raise click.UsageError(msg, ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=_Lazy)
@click.version_option(package_name="numcheck")
@lang_option
@click.pass_context
def cli(context: click.Context, lang: Language | None) -> None:
    """Find out why a training run prints NaN."""
    # Said before the command, it is what the command's own option starts from.
    context.default_map = {name: {"lang": lang} for name in COMMANDS}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exit 0 clean, 1 with findings, 2 on an error."""
    make_writable()
    given = sys.argv[1:] if arguments is None else arguments
    lang = language()
    try:
        _check_language()
        lang = _wanted(given) or lang
        command = spoken(cli, "numcheck", lang)
        code = command.main(given, "numcheck", standalone_mode=False, obj=lang)
        sys.exit(code if isinstance(code, int) else 0)
    except NonFiniteError as error:
        click.echo(error, err=True)
        sys.exit(1)
    except click.ClickException as error:
        click.echo(usage_error(error, lang), err=True)
    except (click.Abort, KeyboardInterrupt):
        click.echo(text("help.frame.stopped", lang), err=True)
    except BrokenPipeError:
        # Nobody reads on; what is left must not fail again when Python flushes it.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (NumcheckError, OSError) as error:
        click.echo(f"numcheck: {in_words_of(lang, str(error))}", err=True)
    except Exception:  # noqa: BLE001 - Python's own exit code, 1, would say "findings"
        traceback.print_exc()
    sys.exit(2)


def _wanted(arguments: list[str]) -> Language | None:
    """Return the language that ``--lang`` names, which help and errors speak, too."""
    for i, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name == "--lang":
            said = value or (arguments[i + 1] if i + 1 < len(arguments) else "")
            return next((known for known in LANGUAGES if known == said), None)
    return None


def _check_language() -> None:
    """Refuse a language that numcheck does not speak.

    A report of a training would rather come in English than not at all, so this is
    asked of the command line alone.

    Raises:
        ArgumentError: NUMCHECK_LANG names another one.
    """
    if wanted := os.environ.get("NUMCHECK_LANG"):
        try:
            language(wanted)
        except ArgumentError as error:
            known = ", ".join(LANGUAGES)
            msg = f"NUMCHECK_LANG must be one of {known}; got {wanted!r}"
            raise ArgumentError(msg) from error
