# SPDX-License-Identifier: Apache-2.0
"""States that stop moving are noticed at a few steps of a long run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from numcheck.diagnose.still_watch import StillWatch

if TYPE_CHECKING:
    from collections.abc import Callable


def audited(state: Callable[[int], float], steps: int = 10_000) -> list[int]:
    still, asked = StillWatch(), []
    for step in range(steps):
        if still.wants_values(step):
            bits = np.float64(state(step)).tobytes()
            asked += [step] * still.take({"state": bits})
    return asked


@pytest.mark.parametrize("last", [40, 256, 2048])
def test_a_counter_that_sticks_is_audited_before_its_run_is_twice_as_long(
    last: int,
) -> None:
    found = audited(lambda step: min(step, last))
    assert len(found) == 1
    assert last < found[0] <= 2 * last + 1


@pytest.mark.parametrize(
    "state", [float, lambda _: 1.0, lambda step: step % 7], ids=["moves", "rests", "?"]
)
def test_what_moves_on_or_never_moved_asks_for_no_audit(
    state: Callable[[int], float],
) -> None:
    assert audited(state) == []


def test_the_readings_of_a_long_run_grow_with_its_logarithm_only() -> None:
    still = StillWatch()
    read = 0
    for step in range(100_000):
        if still.wants_values(step):
            read += 1
            still.take({})
    assert read <= 2 * np.log2(100_000)
