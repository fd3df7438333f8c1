# SPDX-License-Identifier: Apache-2.0
"""How far the experiments on a failing step are, for who waits at a terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

from numcheck.report.messages import text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.diagnose.experiments import Progress

__all__ = ["experimenting"]

_SOON_S = 1.0


@contextlib.contextmanager
def experimenting(lang: str | None = None) -> Iterator[Progress | None]:
    """Show a bar on standard error once the block takes longer than a second.

    Yields:
        What is to be told before each experiment; None where nobody watches, because
        standard error is no terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    bar = Bar(console=Console(stderr=True), transient=True)
    task = bar.add_task(text("report.experimenting", lang), total=None)
    timer = threading.Timer(_SOON_S, bar.start)
    timer.daemon = True

    def told(name: str, done: int, total: int) -> None:
        what = f": {text(f'page.experiment.{name}', lang)}" if name else ""
        said = text("report.experimenting", lang) + what
        bar.update(task, description=said, completed=done, total=total)

    timer.start()
    try:
        yield told
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:  # stopped unstarted, a bar may still end its line
            bar.stop()
