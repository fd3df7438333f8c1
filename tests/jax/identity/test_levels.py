# SPDX-License-Identifier: Apache-2.0
"""Programs that run in the function's place give its results."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck_jax
from tests.jax.identity.programs import PROGRAMS, W, X


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "options",
    [{"level": "anchors"}, {"level": "trace"}, {"rollback": True}],
    ids=["anchors", "trace", "rollback"],
)
def test_measured_program_gives_the_plain_results(
    name: str, options: dict[str, Any]
) -> None:
    function, args, kwargs = PROGRAMS[name]
    step = numcheck_jax.instrument(function, audit_first=False, **options)
    got, wanted = step(*args, **kwargs), function(*args, **kwargs)
    step.numcheck.close()
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    # Another program may fuse otherwise; float32 and narrower move a rounding.
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype if hasattr(b, "dtype") else type(a) is type(b)
        if not hasattr(b, "dtype") or not jax.dtypes.issubdtype(b.dtype, np.inexact):
            assert jnp.all(a == b)
            continue
        wide = [np.asarray(x).astype(np.complex128) for x in (a, b)]
        rounding = 2 * float(jnp.finfo(b.dtype).eps)
        np.testing.assert_allclose(*wide, rtol=rounding, atol=1e-6)
    assert step.numcheck.findings == ()
    assert [e for e in step.numcheck.events if e.name == "fault"] == []


@pytest.mark.parametrize("level", ["anchors", "trace"])
@pytest.mark.parametrize("name", ["optimizer", "narrow formats", "scan", "remat"])
def test_without_excess_precision_results_are_the_plain_ones_bit_for_bit(
    name: str, level: Any
) -> None:
    function, args, kwargs = PROGRAMS[name]
    options = {"xla_allow_excess_precision": False}
    exact = jax.jit(function, compiler_options=options)
    step = numcheck_jax.instrument(exact, audit_first=False, level=level)
    got, wanted = step(*args, **kwargs), exact(*args, **kwargs)
    step.numcheck.close()
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert step.numcheck.trace is not None
    assert [e for e in step.numcheck.events if e.name == "note"] == []


def test_where_a_rounding_may_differ_the_report_says_so() -> None:
    function, args, _ = PROGRAMS["optimizer"]
    step = numcheck_jax.instrument(function, audit_first=False, level="trace")
    step(*args)
    step.numcheck.close()
    (note,) = [e.value for e in step.numcheck.events if e.name == "note"]
    assert note == "notice.rounded"


def test_level_trace_holds_every_operator_of_every_step() -> None:
    function, args, _ = PROGRAMS["jit of value_and_grad"]
    step = numcheck_jax.instrument(function, audit_first=False, level="trace")
    for scale in (1.0, 2.0, 3.0):
        step(args[0], scale * args[1])
    step.numcheck.close()
    trace = step.numcheck.trace
    assert trace is not None
    assert trace.steps == (0, 1, 2)
    (x,) = (s for s in trace.sites if s.op == "input:x")
    amax = [trace.at(step).summary(x) for step in trace.steps]
    largest = float(jnp.abs(X).max())
    for k, summary in enumerate(amax, 1):
        assert summary is not None
        assert summary.amax == pytest.approx(k * largest)
    ops = {s.op for s in trace.sites}
    assert {"dot_general", "tanh", "loss", "gradient:w"} <= ops


def test_level_anchors_holds_matrix_products_and_results_alone() -> None:
    function, args, _ = PROGRAMS["jit of value_and_grad"]
    step = numcheck_jax.instrument(function, audit_first=False, level="anchors")
    step(*args)
    step.numcheck.close()
    trace = step.numcheck.trace
    assert trace is not None
    operators = {s.op for s in trace.sites if s.kind == "operator"}
    assert operators == {"dot_general"}


class Block(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return x + nn.Dense(4, name="up")(nn.LayerNorm(name="norm")(x))


class Net(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.remat(Block)(name="first")(x)
        return nn.softmax(Block(name="second")(x))


def test_level_anchors_holds_the_output_of_every_module() -> None:
    net = Net()
    params = net.init(jax.random.key(0), X)

    def loss(params: Any, x: Any) -> Any:
        return jnp.log(net.apply(params, x)).sum()

    step = numcheck_jax.instrument(
        jax.jit(jax.value_and_grad(loss)), audit_first=False, level="anchors"
    )
    step(params, X)
    step.numcheck.close()
    trace = step.numcheck.trace
    assert trace is not None
    held = {
        s.scope: trace.at(0).summary(s)
        for s in trace.sites
        if s.kind == "operator" and s.phase == "forward" and s.op != "dot_general"
    }
    _, seen = net.apply(params, X, capture_intermediates=True)
    outputs = jax.tree_util.tree_leaves_with_path(seen["intermediates"])
    # What Flax captures itself is the measure.
    assert len(held) == len(outputs) == 7
    for path, value in outputs:
        names = [str(k.key) for k in path if hasattr(k, "key")]
        summary = held[".".join(("Net", *names)).removesuffix(".__call__")]
        assert summary is not None
        assert summary.amax == pytest.approx(float(jnp.abs(value).max()), rel=1e-5)


def test_measured_step_that_breaks_is_explained_like_any_other() -> None:
    step = numcheck_jax.instrument(
        jax.jit(lambda w, x: jnp.sum(w * jnp.log(x))),
        audit_first=False,
        level="trace",
        on_error="record",
    )
    step(W, jnp.zeros_like(W))
    assert [f.site.op for f in step.numcheck.findings] == ["log"]
