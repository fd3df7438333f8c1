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
from numcheck_jax.kept_memory import kept_alone
from numcheck_jax.sentinel import Flag

PEAK = 100_000


@jax.jit
def step(w: Any, x: Any) -> Any:
    return w - 0.1 * x, jnp.log(x).sum()


@pytest.fixture
def _flags_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flag, "is_ready", False)
    monkeypatch.setattr("numcheck_jax.kept_memory.peak_bytes", lambda _: PEAK)


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
    assert notes == ["notice.let_go"]


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


@pytest.mark.parametrize("names", [("devices",), ()], ids=["sharded", "replicated"])
def test_what_a_device_keeps_is_its_own_part_of_an_array(names: Any) -> None:
    mesh = jax.make_mesh((4,), ("devices",))
    spec = jax.sharding.PartitionSpec(*names)
    x = jax.device_put(jnp.ones(400), jax.sharding.NamedSharding(mesh, spec))
    expected = {s.device: s.data.nbytes for s in x.addressable_shards}
    assert kept_alone([x, jnp.ones(0)], []) == expected
    assert set(expected.values()) == {400 if names else 1600}


@pytest.mark.usefixtures("_flags_are_late")
def test_large_array_spread_over_devices_is_held_where_its_parts_are_small() -> None:
    mesh = jax.make_mesh((4,), ("devices",))
    spec = jax.sharding.PartitionSpec("devices")
    sharding = jax.sharding.NamedSharding(mesh, spec)
    watched = numcheck_jax.instrument(step, audit_first=False, on_error="record")
    for k in range(2):
        # 2400 bytes in all, 600 on each device, whose share is 2000.
        watched(jax.device_put(jnp.full(600, 1.0 + k), sharding), jnp.float32(1.0))
    watched.numcheck.close()
    assert [e for e in watched.numcheck.events if e.name in ("note", "fault")] == []
