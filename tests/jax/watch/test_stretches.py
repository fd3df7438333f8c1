# SPDX-License-Identifier: Apache-2.0
"""A jitted step is diagnosed with few compilations, and still equation by equation."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring

import numcheck_jax
from numcheck.errors import NonFiniteError
from numcheck.record.site import Site
from numcheck.record.trace import TraceBuilder
from numcheck_jax.recorder import record

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPILED = "/jax/core/compile/backend_compile_duration"


@contextlib.contextmanager
def counted() -> Iterator[list[str]]:
    """Count what the compiler is given."""
    seen: list[str] = []

    def listen(name: str, _seconds: float, **_: Any) -> None:
        if name == _COMPILED:
            seen.append(name)

    monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        monitoring.unregister_event_duration_listener(listen)


def deep(x: Any) -> Any:
    """Compute through arrays of different shapes."""
    for i in range(8):
        x = jnp.concatenate([x, jnp.sin(x[:1]) * (1 + i)])
        x = jnp.tanh(x) + jnp.exp(-x * x)
    return x


def halves(x: Any) -> Any:
    # sqrt(x * x) is x to a compiler that sees both.
    wide = jnp.sqrt(x * x)
    return jnp.sum(deep(x).astype(jnp.float32)) + jnp.sum(wide.astype(jnp.float32))


def recorded(function: Any, x: Any, shadow: Any = None) -> tuple[Any, Any]:
    closed = jax.make_jaxpr(function)(x)
    builder = TraceBuilder(0, 0)
    source = Site(0, "input:x", "data", kind="source", dtype=str(x.dtype))
    made = record(closed, [x], builder=builder, in_sites=[source], shadow=shadow)
    return builder.build(), made


def places(trace: Any) -> list[Any]:
    return [(s.op, s.dtype, s.shape, s.parents, s.phase) for s in trace.sites]


def held(trace: Any) -> list[float]:
    view = trace.at(0)
    found = (view.summary(s) for s in trace.sites)
    shown = [x for s in found for x in (s.amax, s.amin, s.nan, s.pos_inf, s.zero)]
    return [-1.0 if x is None else float(x) for x in shown]


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
def test_stretch_records_what_each_equation_alone_gives(dtype: Any) -> None:
    x = jnp.array([300.0, 0.5, 1e-4], dtype)
    together, made = recorded(jax.jit(halves), x, "float32")
    apart, alone = recorded(halves, x, "float32")
    assert places(together) == places(apart)
    # The last bit of a float32 exponential depends on the instructions chosen.
    assert held(together) == pytest.approx(held(apart), rel=1e-6)
    assert made.departures == pytest.approx(alone.departures, rel=1e-3, abs=1e-6)
    np.testing.assert_allclose(made.outs[0], alone.outs[0], rtol=1e-6)


def test_overflow_that_the_compiler_would_simplify_is_still_recorded() -> None:
    trace, _ = recorded(jax.jit(halves), jnp.array([300.0, 1.0], jnp.float16))
    view = trace.at(0)
    bad = [s.op for s in trace.sites if not view.summary(s).is_finite]
    assert "mul" in bad


def test_audit_compiles_a_jitted_step_in_a_few_pieces() -> None:
    step = numcheck_jax.instrument(jax.jit(halves), on_error="record")
    with counted() as seen:
        step(jnp.array([0.25, 0.5, 1.0], jnp.float16))
    step.numcheck.close()
    assert len(step.numcheck.trace.sites) > 60
    assert len(seen) < 20


def test_diagnosis_after_an_audit_compiles_only_the_experiments() -> None:
    @jax.jit
    def step(w: Any, x: Any) -> Any:
        return jnp.sum(deep(jnp.log(x) * w))

    watched = numcheck_jax.instrument(step, lag=0)
    w, x = jnp.ones(4), jnp.arange(1.0, 5.0)
    watched(w, x)
    with counted() as seen, pytest.raises(NonFiniteError) as caught:
        watched(w, x - 3)
    assert caught.value.finding.site.op == "log"
    assert len(seen) < 20
