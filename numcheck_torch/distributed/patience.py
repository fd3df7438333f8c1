# SPDX-License-Identifier: Apache-2.0
"""How long collectives wait for others while a step is run again."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_timeout", "limited"]

_PATIENCE: Final = dt.timedelta(seconds=120)
_LOST: Final = ("timed out", "timeout", "connection closed", "connection reset")


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Run a block in which gloo waits no longer than two minutes for anybody.

    Groups of accelerators keep their own limit: exceeding it ends the process, and is
    ten minutes unless the program says otherwise.
    """
    before = [(b, b.options._timeout) for b in _backends()]
    shorter = [(b, t) for b, t in before if t > _PATIENCE]
    for backend, _ in shorter:
        backend._set_default_timeout(_PATIENCE)
    try:
        yield
    finally:
        for backend, limit in shorter:
            backend._set_default_timeout(limit)


def is_timeout(error: RuntimeError) -> bool:
    """Whether a collective gave up on another process."""
    text = str(error).lower()
    return any(word in text for word in _LOST)


def _backends() -> list[Any]:
    """Return the gloo backends of the program's groups."""
    if not distributed.is_gloo_available():
        return []
    gloo = distributed.ProcessGroupGloo
    found = []
    for group in list(distributed.distributed_c10d._world.pg_map):
        with contextlib.suppress(RuntimeError):
            backend = group._get_backend(torch.device("cpu"))
            if isinstance(backend, gloo):
                found.append(backend)
    return found
