# SPDX-License-Identifier: Apache-2.0
"""Functions of PyTorch that are listened at, and what others make of them meanwhile."""

from __future__ import annotations

import functools
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import numcheck_torch
from numcheck_torch import doors

if TYPE_CHECKING:
    import pytest


def test_what_others_wrapped_meanwhile_stays_wrapped_when_watching_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, name = [], "_clip_grads_with_norm_"
    module: Any = torch.nn.utils.clip_grad
    monkeypatch.setattr(module, name, getattr(module, name))  # undone at the end
    with numcheck_torch.instrument(nn.Linear(1, 1)).numcheck:
        listened = getattr(module, name)

        @functools.wraps(listened)
        def theirs(*args: Any, **kwargs: Any) -> Any:
            calls.append(args)
            return listened(*args, **kwargs)

        monkeypatch.setattr(module, name, theirs)
    assert getattr(module, name) is theirs
    model = nn.Linear(1, 1)
    model(torch.ones(1, 1)).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    assert len(calls) == 1


class Listener:
    def hear(self, *_: object) -> None:
        pass


def test_listeners_that_come_and_go_on_several_threads_are_all_known() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(40):
            assert left_by_threads(threads=4, each=20) == 40
    finally:
        sys.setswitchinterval(interval)


def left_by_threads(threads: int, each: int) -> int:
    """Return how many still listen where every thread took half of its own away."""
    owner = types.SimpleNamespace(function=lambda: None)
    held = [[Listener() for _ in range(each)] for _ in range(threads)]

    def come_and_go(mine: list[Listener]) -> None:
        for listener in mine:
            doors.listen(owner, "function", before=listener.hear)
        for listener in mine[::2]:
            doors.unlisten(owner, "function", listener)

    workers = [threading.Thread(target=come_and_go, args=(mine,)) for mine in held]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(owner.function.numcheck_door.ears)
