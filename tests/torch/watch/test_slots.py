# SPDX-License-Identifier: Apache-2.0
"""Slots are the same for every program, on whatever thread it is written down."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from numcheck_torch import events
from numcheck_torch.events import nth_slot

if TYPE_CHECKING:
    import pytest


def test_threads_that_ask_at_once_get_slots_of_the_numbers_they_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "_slots", type(events._slots)())
    start = threading.Barrier(4)
    wrong: list[int] = []

    def ask() -> None:
        start.wait()
        wrong.extend(n for n in range(5000) if nth_slot(n).index != n)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert len({id(nth_slot(n)) for n in range(5000)}) == 5000
