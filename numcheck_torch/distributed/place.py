# SPDX-License-Identifier: Apache-2.0
"""Which of the processes of a run this is."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
from typing import TYPE_CHECKING

from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.record.trace import Trace

__all__ = ["in_turn", "is_connected", "of_rank", "rank_of_process", "world_size"]

_PATIENCE = dt.timedelta(seconds=20)


def is_connected() -> bool:
    """Whether a process group of several processes was set up."""
    return (
        distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def rank_of_process() -> int:
    """Return this process's rank; before a process group exists, what RANK says.

    Example:
        >>> rank_of_process()
        0
    """
    if is_connected():
        return distributed.get_rank()
    return _whole_number("RANK", 0)


def world_size() -> int:
    """Return the number of processes; before a process group exists, WORLD_SIZE."""
    if is_connected():
        return distributed.get_world_size()
    return _whole_number("WORLD_SIZE", 1)


def of_rank(trace: Trace, rank: int) -> Trace:
    """Return the trace of a step, told as that rank's."""
    if rank == 0:
        return trace
    held = {(step, rank): summaries for (step, _), summaries in trace.summaries.items()}
    return dataclasses.replace(trace, summaries=held)


@contextlib.contextmanager
def in_turn(folder: object) -> Iterator[None]:
    """Let rank 0 run the block first, so that all ranks find the attempt it made.

    Others do not wait for ever: rank 0 may not be watched at all.

    Args:
        folder: what is written to; with None there is nothing to wait for.
    """
    if folder is None or not is_connected():
        yield
        return
    store = distributed.distributed_c10d._get_default_store()
    name = f"numcheck/folder/{os.fspath(str(folder))}"
    if distributed.get_rank() == 0:
        try:
            yield
        finally:
            store.set(name, "made")
        return
    with contextlib.suppress(distributed.DistStoreError):
        store.wait([name], _PATIENCE)
    yield


def _whole_number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise
