# SPDX-License-Identifier: Apache-2.0
"""The command ``numcheck profiles``."""

from __future__ import annotations

import json

import click

from numcheck.shared_options import json_option, lang_option

__all__ = ["profiles"]


@click.command()
@click.argument("name", required=False)
@json_option
@lang_option
def profiles(name: str | None, as_data: bool, lang: str | None) -> None:  # noqa: FBT001 - click passes options by keyword
    """List the devices that can be simulated, or show what the profile NAME does."""
    from numcheck.simulation.loading import load, profile_names
    from numcheck.simulation.page import list_page, profile_data, profile_page

    if as_data:
        chosen = profile_names() if name is None else (name,)
        click.echo(json.dumps([profile_data(load(n)) for n in chosen], indent=2))
    elif name is None:
        click.echo(list_page(lang))
    else:
        click.echo(profile_page(load(name), lang))
