# SPDX-License-Identifier: Apache-2.0
"""Steps that write to mutable arrays among their arguments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck.monitor
import numcheck_jax

GOOD, BAD = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 0.0, 3.0])


def accumulate(ref: Any, x: Any) -> Any:
    ref[...] = ref[...] + jnp.log(x)
    return x.sum()


@pytest.mark.parametrize("level", ["watch", "anchors", "trace"])
@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_watched_step_writes_what_the_plain_one_writes(wrap: Any, level: Any) -> None:
    function = wrap(accumulate)
    step = numcheck_jax.instrument(function, level=level)
    mine, plain = jax.new_ref(jnp.zeros(3)), jax.new_ref(jnp.zeros(3))
    for scale in (1.0, 2.0):
        assert step(mine, scale * GOOD) == function(plain, scale * GOOD)
        assert np.asarray(mine[...]).tobytes() == np.asarray(plain[...]).tobytes()
    step.numcheck.close()
    assert step.numcheck.findings == ()
    assert [e for e in step.numcheck.events if e.name == "fault"] == []


@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_fault_that_only_a_reference_shows_is_replayed(wrap: Any) -> None:
    step = numcheck_jax.instrument(wrap(accumulate), on_error="record", lag=0)
    ref = jax.new_ref(jnp.zeros(3))
    step(ref, GOOD)
    step(ref, BAD)
    (finding,) = step.numcheck.findings
    assert (finding.site.op, finding.step, finding.reproduced) == ("log", 1, True)
    assert [s.op for s in finding.harm] == ["state:ref"]


def test_replay_starts_from_what_the_reference_held_before() -> None:
    def divide(ref: Any, x: Any) -> Any:
        ref[...] = ref[...] - 1.0
        return (x / ref[...]).sum()

    step = numcheck_jax.instrument(jax.jit(divide), on_error="record")
    ref = jax.new_ref(jnp.float32(2.0))
    for _ in range(3):  # 1, 0, -1: the second divides by zero
        step(ref, GOOD)
    step.numcheck.close()
    (finding,) = step.numcheck.findings
    assert (finding.site.op, finding.step, finding.reproduced) == ("div", 1, True)


def test_one_reference_given_twice_stays_one() -> None:
    def both(a: Any, b: Any) -> Any:
        a[...] = a[...] - 1.0
        return 1.0 / b[...]

    step = numcheck_jax.instrument(both, on_error="record", lag=0)
    ref = jax.new_ref(jnp.float32(1.0))
    step(ref, ref)
    assert [f.site.op for f in step.numcheck.findings] == ["div"]


def test_skipped_update_gives_a_reference_its_old_value_back() -> None:
    step = numcheck_jax.instrument(jax.jit(accumulate), on_error="skip")
    ref = jax.new_ref(jnp.zeros(3))
    step(ref, GOOD)
    before = np.asarray(ref[...])
    with pytest.warns(numcheck.monitor.NumcheckWarning, match="log"):
        step(ref, BAD)
    assert np.array_equal(ref[...], before)


def test_reference_too_large_to_copy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numcheck_jax.references._MOST_BYTES", 8)
    step = numcheck_jax.instrument(
        jax.jit(accumulate), on_error="record", audit_first=False
    )
    step(jax.new_ref(jnp.zeros(3)), BAD)
    step.numcheck.close()
    (finding,) = step.numcheck.findings
    assert finding.id == "N903"
    assert "refusal.mutable_large" in str(finding.evidence)
