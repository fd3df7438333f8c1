# SPDX-License-Identifier: Apache-2.0
"""A bar on standard error while a command works, where someone looks."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["busy"]


@contextlib.contextmanager
def busy(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar named `what` while the block runs, unless no terminal is watching.

    Yields:
        A function to call with how much is done and how much there is.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield _unseen
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what.replace("[", r"\["), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _unseen(done: int, total: int) -> None:
    """Show progress to nobody."""
    del done, total
