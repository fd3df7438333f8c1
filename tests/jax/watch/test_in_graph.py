# SPDX-License-Identifier: Apache-2.0
"""A watched function inside the user's own transformation tells what broke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import numcheck_jax
from numcheck.errors import NonFiniteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.diagnose.finding import Finding

GOOD = jnp.array([1.0, 2.0, 4.0])
BAD = jnp.array([1.0, 0.0, 4.0])


def logarithm(w: Any, x: Any) -> Any:
    return jnp.sum(w * jnp.log(x))


def root(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.sqrt(w * x))


def found_in(
    function: Callable[..., Any], transform: Callable[[Any], Any], *args: Any
) -> Finding:
    watched = numcheck_jax.instrument(function, audit_first=False)
    jax.block_until_ready(transform(watched)(*args))
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    return caught.value.finding


@pytest.mark.parametrize(
    "transform",
    [
        jax.jit,
        lambda f: jax.jit(jax.value_and_grad(f)),
        lambda f: jax.vmap(f, (None, 0)),
        lambda f: jax.jit(jax.vmap(f, (None, 0))),
        lambda f: jax.jit(lambda w, x: lax.map(lambda v: f(w, v), x)),
        lambda f: jax.jit(jax.checkpoint(f)),
    ],
    ids=["jit", "value_and_grad", "vmap", "jit of vmap", "map", "checkpoint"],
)
def test_forward_fault_is_named(transform: Callable[[Any], Any]) -> None:
    finding = found_in(logarithm, transform, GOOD, jnp.stack([GOOD, GOOD, BAD]))
    assert (finding.site.op, finding.phase) == ("log", "forward")
    assert finding.reproduced is True
    assert finding.site.source is not None
    assert finding.site.source.text == "return jnp.sum(w * jnp.log(x))"


@pytest.mark.parametrize(
    "transform",
    [
        jax.grad,
        lambda f: jax.jit(jax.grad(f)),
        lambda f: jax.jit(jax.value_and_grad(f)),
        lambda f: jax.jit(jax.vmap(jax.grad(f), (None, 0))),
    ],
    ids=["grad", "jit of grad", "value_and_grad", "vmap of grad"],
)
def test_backward_fault_is_named_though_the_loss_is_finite(
    transform: Callable[[Any], Any],
) -> None:
    x = jnp.stack([GOOD, BAD])
    finding = found_in(root, transform, GOOD, x)
    assert (finding.site.op, finding.phase) == ("div", "backward")
    assert "gradient:w" in [s.op for s in finding.harm]


def test_bad_argument_is_named_under_jit() -> None:
    finding = found_in(logarithm, jax.jit, GOOD, GOOD.at[1].set(jnp.nan))
    assert finding.site.op == "input:x"


def test_step_of_a_scan_is_watched() -> None:
    def body(step: Any) -> Callable[[Any, Any], Any]:
        def train(w: Any, xs: Any) -> Any:
            return lax.scan(lambda w, x: (w - 0.1 * step(w, x), None), w, xs)[0]

        return train

    finding = found_in(
        lambda w, x: jnp.log(x) * w,
        lambda f: jax.jit(body(f)),
        GOOD,
        jnp.stack([GOOD, BAD, GOOD]),
    )
    assert finding.site.op == "log"


def test_failure_inside_a_program_is_said_on_stderr(
    capfd: pytest.CaptureFixture[str],
) -> None:
    found_in(logarithm, jax.jit, GOOD, BAD)
    assert "a NaN or Inf left logarithm" in capfd.readouterr().err


def test_next_traced_call_is_a_boundary_too() -> None:
    watched = numcheck_jax.instrument(logarithm, audit_first=False)
    program = jax.jit(watched)
    jax.block_until_ready(program(GOOD, BAD))
    with pytest.raises(NonFiniteError):
        program(GOOD[:2], GOOD[:2])


def test_mutable_findings_are_up_to_date_under_record() -> None:
    watched = numcheck_jax.instrument(logarithm, audit_first=False, on_error="record")
    jax.block_until_ready(jax.jit(watched)(GOOD, BAD))
    assert [f.site.op for f in watched.numcheck.findings] == ["log"]


def test_report_says_that_no_audit_runs_inside_a_transformation() -> None:
    watched = numcheck_jax.instrument(logarithm)
    program = jax.jit(watched)
    for scale in (1.0, 2.0):
        jax.block_until_ready(program(GOOD, scale * GOOD))
    watched.numcheck.close()
    notes = [str(e.value) for e in watched.numcheck.events if e.name == "note"]
    assert notes == ["notice.traced"]
    assert watched.numcheck.findings == ()
