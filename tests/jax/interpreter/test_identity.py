# SPDX-License-Identifier: Apache-2.0
"""Recording, compiling measurements in, and lifting leave the results alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcheck_jax.compiled import compiled_trace
from numcheck_jax.lift import lift
from tests.jax.identity.programs import PROGRAMS
from tests.jax.interpreter.constructs import CONSTRUCTS, X, root
from tests.jax.interpreter.recording import replayed, traced

EXACT = {"xla_allow_excess_precision": False}


def program(name: str) -> tuple[Any, list[Any]]:
    """The jaxpr of a program of the zoo, or of the gradient of a construct."""
    if name.startswith("grad in "):
        construct, _, reverses = CONSTRUCTS[name.removeprefix("grad in ")]
        f = construct(root)
        return traced(jax.value_and_grad(f) if reverses else f, X + 0.5)
    function, args, kwargs = PROGRAMS[name]
    step = function if hasattr(function, "trace") else jax.jit(function)
    made = step.trace(*args, **kwargs)
    leaves = [x for x in jax.tree.leaves((args, kwargs)) if hasattr(x, "dtype")]
    if len(leaves) != len(made.jaxpr.in_avals):
        leaves = [
            jnp.asarray(x, aval.dtype)
            for x, aval in zip(
                jax.tree.leaves((args, kwargs)), made.jaxpr.in_avals, strict=True
            )
        ]
    return made.jaxpr, leaves


NAMES = [
    *(name for name in PROGRAMS if name not in ("static arguments", "partial")),
    *(f"grad in {name}" for name in CONSTRUCTS),
]


def assert_bit_equal(got: Any, wanted: Any) -> None:
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_instrumented_program_gives_the_plain_results_bit_for_bit(name: str) -> None:
    closed, leaves = program(name)
    plain = jax.jit(
        lambda *xs: jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *xs),
        compiler_options=EXACT,
    )
    compiled = compiled_trace(closed, policy="anchors")
    outs, _ = jax.jit(compiled.function, compiler_options=EXACT)(*leaves)
    assert_bit_equal(outs, plain(*leaves))


@pytest.mark.parametrize("name", NAMES)
def test_lift_of_each_dtype_to_itself_is_the_same_program(name: str) -> None:
    closed, leaves = program(name)
    plain = jax.jit(lambda *xs: jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *xs))
    assert_bit_equal(jax.jit(lift(closed, "same"))(*leaves), plain(*leaves))


@pytest.mark.parametrize("name", NAMES)
def test_recorded_results_are_those_of_an_evaluation_op_by_op(name: str) -> None:
    closed, leaves = program(name)
    wanted = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *leaves)
    builder, recording = replayed(closed, leaves)
    assert len(recording.outs) == len(wanted)
    for got, value in zip(recording.outs, wanted, strict=True):
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            continue
        # A loop is compiled as one there and runs operator by operator here.
        a, b = (np.asarray(x).astype(np.complex128) for x in (got, value))
        np.testing.assert_allclose(
            a, b, rtol=2e-2 if name == "narrow formats" else 1e-5
        )
    assert all(site.index == i for i, site in enumerate(builder.sites))
    assert all(p < site.index for site in builder.sites for p in site.parents)


@pytest.mark.parametrize("policy", ["anchors", "risky", "all"])
def test_rows_belong_to_the_sites_of_the_policy(policy: Any) -> None:
    closed, leaves = program("jit of value_and_grad")
    compiled = compiled_trace(closed, policy=policy)
    _, rows = jax.jit(compiled.function)(*leaves)
    held = compiled.summaries(rows)
    ops = {compiled.sites[i].op for i in held}
    assert "dot_general" in ops
    assert ("tanh" in ops) == (policy == "all")
    assert rows.shape[0] == len(compiled.rows)
