# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, each written once."""

from __future__ import annotations

import click

from numcheck.report.messages import LANGUAGES

__all__ = [
    "colour_option",
    "json_option",
    "lang_option",
    "outputs_option",
    "width_option",
]

lang_option = click.option("--lang", type=click.Choice(LANGUAGES))
width_option = click.option("--width", type=click.IntRange(40))
colour_option = click.option("--colour/--no-colour", default=None)
json_option = click.option("--json", "as_data", is_flag=True)
outputs_option = click.option(
    "-o",
    "--output",
    "outputs",
    metavar="PATH",
    type=click.Path(dir_okay=False),
    multiple=True,
)
