# SPDX-License-Identifier: Apache-2.0
"""The commands ``numcheck formats``, ``numcheck range`` and ``numcheck fit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from numcheck.report.messages import text
from numcheck.report.printable import printable
from numcheck.shared_options import json_option, lang_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from numcheck.calculator._fit_pages import Fitted

__all__ = ["fit", "formats", "range_"]

# Reading less than this takes less time than a bar takes to appear.
_SHOW_PROGRESS = 1 << 26


@click.command()
@click.argument("name", required=False)
@json_option
@lang_option
def formats(name: str | None, as_data: bool, lang: str | None) -> None:  # noqa: FBT001 - click passes options by keyword
    """List number formats, or explain the format NAME."""
    from numcheck.calculator._pages import format_data, format_page, formats_page
    from numcheck.calculator._plain import as_json
    from numcheck.formats import block_names, lookup, names

    if name is not None:
        found = lookup(name)
        page = as_json(format_data(found)) if as_data else format_page(found, lang)
    elif as_data:
        page = as_json([format_data(lookup(n)) for n in (*names(), *block_names())])
    else:
        page = formats_page(lang)
    click.echo(page)


@click.command(name="range", context_settings={"ignore_unknown_options": True})
@click.argument("fmt", metavar="FORMAT")
@click.argument("values", nargs=-1, required=True, metavar="VALUE...")
@json_option
@lang_option
def range_(
    fmt: str,
    values: tuple[str, ...],
    as_data: bool,  # noqa: FBT001 - click passes options by keyword
    lang: str | None,
) -> None:
    """Say what becomes of each VALUE in FORMAT, and how far its limits are."""
    from numcheck.calculator._fate import fate_of, parse_value
    from numcheck.calculator._pages import range_page
    from numcheck.calculator._plain import as_json

    fates = [fate_of(parse_value(value), fmt) for value in values]
    click.echo(as_json(fates) if as_data else range_page(fates, lang))


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--to", "targets", metavar="FORMAT", multiple=True)
@click.option("--tensor", metavar="NAME")
@click.option("--dtype", metavar="NAME")
@json_option
@lang_option
def fit(
    file: str,
    targets: tuple[str, ...],
    tensor: str | None,
    dtype: str | None,
    as_data: bool,  # noqa: FBT001 - click passes options by keyword
    lang: str | None,
) -> None:
    """Say which formats hold the arrays of FILE (.npy, .npz, .safetensors)."""
    from numcheck.calculator._fit_pages import fit_data, fit_list_page, fit_page
    from numcheck.calculator._plain import as_json
    from numcheck.errors import DumpError
    from numcheck.measure import DEFAULT_FORMATS

    chosen = targets or DEFAULT_FORMATS
    items = list(_fitted(file, chosen, tensor, dtype, lang))
    if not items:
        raise DumpError(f"{file} holds no array of real numbers")
    if as_data:
        click.echo(as_json([fit_data(item) for item in items]))
    elif len(items) == 1:
        click.echo(fit_page(items[0], lang))
    else:
        click.echo(fit_list_page(items, file, lang))


def _fitted(
    file: str,
    targets: tuple[str, ...],
    tensor: str | None,
    dtype: str | None,
    lang: str | None,
) -> Iterator[Fitted]:
    from numcheck.calculator._files import arrays_in, viewed_as
    from numcheck.calculator._fit_pages import Fitted
    from numcheck.errors import ArgumentError, ArgumentTypeError
    from numcheck.formats import get

    formats_ = [get(target) for target in targets]
    known: list[str] = []
    for name, stored in arrays_in(file):
        known.append(name)
        if tensor is not None and name != tensor:
            continue
        array = viewed_as(stored, dtype) if dtype else stored
        try:
            found = _with_progress(name, array, formats_, lang)
        except ArgumentTypeError as error:
            if tensor is not None:
                raise
            reason = text(
                "calculator.fit.skipped", lang, name=printable(name), reason=error
            )
            click.echo(reason, err=True)
            continue
        yield Fitted(name, str(array.dtype), array.shape, found)
    if tensor is not None and tensor not in known:
        raise ArgumentError(f"{file} holds no {tensor!r}; it holds {', '.join(known)}")


def _with_progress(
    name: str, array: NDArray[Any], formats_: list[Any], lang: str | None
) -> Any:  # noqa: ANN401 - a Fit
    from functools import partial

    from rich.console import Console
    from rich.progress import Progress

    from numcheck.calculator._fit_pages import MAX_FLUSHED, MIN_SQNR_DB
    from numcheck.measure import fit as choose

    fit_array = partial(
        choose, array, formats_, max_flushed=MAX_FLUSHED, min_sqnr_db=MIN_SQNR_DB
    )
    console = Console(stderr=True)
    if array.nbytes < _SHOW_PROGRESS or not console.is_terminal:
        return fit_array()
    with Progress(console=console, transient=True) as bar:
        # The array is read to summarise it, to count, and to count again scaled.
        passes = 1 if array.dtype.itemsize <= 2 else 3
        label = text("calculator.fit.reading", lang, name=name)
        task = bar.add_task(label, total=passes * array.size)
        return fit_array(progress=lambda done: bar.advance(task, done))
