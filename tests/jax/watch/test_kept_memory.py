# SPDX-License-Identifier: Apache-2.0
"""What a step replaced is not held beyond its share of the peak memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import numcheck_jax
from numcheck_jax.sentinel import Flag

PEAK = 100_000


@jax.jit
def step(w: Any, x: Any) -> Any:
    return w - 0.1 * x, jnp.log(x).sum()


@pytest.fixture
def _flags_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flag, "is_ready", False)
    monkeypatch.setattr("numcheck_jax.kept_memory.peak_bytes", lambda: PEAK)


def held_after_two_steps(size: int) -> tuple[bool, list[str]]:
    """Whether the first weights are held while the second step runs, and notes."""
    watched = numcheck_jax.instrument(step, audit_first=False, on_error="record")
    first = jnp.ones(size)
    alive = weakref.ref(first)
    seen = []

    def looking(w: Any, x: Any) -> Any:
        gc.collect()
        seen.append(alive() is not None)
        return step(w, x)

    watched.numcheck.function = looking
    w, _ = watched(first, jnp.float32(1.0))
    del first
    watched(w, jnp.float32(1.0))
    watched.numcheck.close()
    notes = [str(e.value) for e in watched.numcheck.events if e.name == "note"]
    return seen[1], notes


@pytest.mark.usefixtures("_flags_are_late")
def test_large_arguments_are_let_go_before_the_next_step_and_that_is_said() -> None:
    is_held, notes = held_after_two_steps(PEAK // 40)
    assert not is_held
    assert ["2 %" in note for note in notes] == [True]


@pytest.mark.usefixtures("_flags_are_late")
def test_small_arguments_stay_for_the_replay() -> None:
    assert held_after_two_steps(PEAK // 1000) == (True, [])


@pytest.mark.usefixtures("_flags_are_late")
def test_broken_step_is_still_replayed_when_it_is_read_early() -> None:
    watched = numcheck_jax.instrument(step, audit_first=False, on_error="record")
    w, _ = watched(jnp.ones(PEAK // 40), jnp.float32(0.0))
    watched(w, jnp.float32(1.0))
    (finding,) = watched.numcheck.findings
    assert (finding.site.op, finding.reproduced) == ("log", True)
