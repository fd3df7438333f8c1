# SPDX-License-Identifier: Apache-2.0
"""The command ``numcheck``. Each subcommand loads its module only when it is used."""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import Any

import click

from numcheck.errors import NonFiniteError, NumcheckError

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
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.command(cls=_Lazy)
@click.version_option(package_name="numcheck")
def cli() -> None:
    """Find out why a training run prints NaN."""


def main(arguments: list[str] | None = None) -> Any:  # noqa: ANN401 - click decides
    """Run the command line; exit 0 clean, 1 with findings, 2 on an error."""
    try:
        return cli.main(arguments, prog_name="numcheck")
    except NonFiniteError as error:
        click.echo(error, err=True)
        sys.exit(1)
    except (NumcheckError, OSError) as error:
        click.echo(f"numcheck: {error}", err=True)
    except Exception:  # noqa: BLE001 - Python's own exit code, 1, would say "findings"
        traceback.print_exc()
    sys.exit(2)
