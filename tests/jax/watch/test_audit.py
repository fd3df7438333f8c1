# SPDX-License-Identifier: Apache-2.0
"""Healthy steps that are looked at more closely, and where it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import pytest

import numcheck_jax
from numcheck.errors import NonFiniteError
from numcheck.record import Trace

if TYPE_CHECKING:
    from pathlib import Path

GOOD = jnp.array([1.0, 2.0, 4.0])


def gradient(w: Any, x: Any) -> Any:
    return jax.value_and_grad(lambda w: jnp.sum((w * x) ** 2))(w)


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, (0,)),
        ({"audit_first": False}, ()),
        ({"every": 2}, (0, 2, 4)),
        ({"every": 3, "audit_first": False}, (0, 3)),
    ],
    ids=["first", "never", "every second", "every third"],
)
def test_steps_are_traced_as_often_as_asked(
    options: dict[str, Any], steps: tuple[int, ...]
) -> None:
    step = numcheck_jax.instrument(jax.jit(gradient), **options)
    for _ in range(5):
        step(GOOD, GOOD)
    step.numcheck.close()
    trace = step.numcheck.trace
    assert (trace.steps if trace else ()) == steps


def test_gradient_that_float16_flushes_to_zero_is_an_error() -> None:
    def flushed(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            out = jnp.tanh(w * x).astype(jnp.float32)
            return 1e-9 * jnp.mean((out - 1.0) ** 2)

        return jax.value_and_grad(loss)(w)

    step = numcheck_jax.instrument(jax.jit(flushed))
    half = GOOD.astype(jnp.float16) / 8
    with pytest.raises(NonFiniteError) as caught:
        step(half, half)
    finding = caught.value.finding
    assert (finding.kind, finding.phase) == ("underflow", "backward")
    assert finding.harm[0].op == "gradient:w"


def test_run_folder_keeps_the_trace_and_the_failing_step(tmp_path: Path) -> None:
    def loss(w: Any, x: Any) -> Any:
        return jnp.sum(w * jnp.log(x))

    step = numcheck_jax.instrument(jax.jit(loss), run=tmp_path / "run")
    step(GOOD, GOOD)
    step(GOOD, GOOD.at[0].set(0.0))
    with pytest.raises(NonFiniteError):
        step.numcheck.close()
    assert step.numcheck.run_path is not None
    files = {p.name for p in step.numcheck.run_path.rglob("*") if p.is_file()}
    assert "meta.json" in files
    assert isinstance(step.numcheck.trace, Trace)
    assert step.numcheck.trace.steps == (0, 1)
