# SPDX-License-Identifier: Apache-2.0
"""Mean and standard deviation at every step, against NumPy in float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck_jax
from numcheck_jax.decoding import decode
from numcheck_jax.statistics import row

if TYPE_CHECKING:
    from numcheck.measure.summary import Summary
    from numcheck.record.trace import StepView

DTYPES = [jnp.float32, jnp.bfloat16, jnp.float16]
NAMES = ["float32", "bfloat16", "float16"]
RNG = np.random.default_rng(0)


class Block(nn.Module):
    dtype: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        kwargs: Any = {"dtype": self.dtype, "param_dtype": self.dtype}
        x = nn.tanh(nn.Dense(80, name="up", **kwargs)(x))
        return nn.Dense(8, name="down", **kwargs)(x)


class Net(nn.Module):
    dtype: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for name in ("first", "second"):
            x = x + Block(self.dtype, name=name)(x)
        return x


def traced(dtype: Any) -> tuple[StepView, list[tuple[str, Any]]]:
    """Return one step at level trace, and every value that the plain step computes."""
    net = Net(dtype)
    x = jnp.asarray(RNG.normal(0.5, 2.0, (64, 8)), dtype)
    params = net.init(jax.random.key(0), x)

    def train(params: Any, x: Any) -> Any:
        def loss_of(params: Any) -> Any:
            return jnp.square(jnp.asarray(net.apply(params, x), jnp.float32)).mean()

        loss, gradients = jax.value_and_grad(loss_of)(params)
        new = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
        return new, gradients, loss

    exact = jax.jit(train, compiler_options={"xla_allow_excess_precision": False})
    step = numcheck_jax.instrument(exact, audit_first=False, level="trace")
    step(params, x)
    step.numcheck.close()
    trace = step.numcheck.trace
    assert trace is not None
    closed = exact.trace(params, x).jaxpr
    leaves = jax.tree.leaves((params, x))
    return trace.at(0), list(evaluated(closed.jaxpr, [*closed.consts, *leaves])[1])


def evaluated(jaxpr: Any, given: Any) -> tuple[list[Any], list[tuple[str, Any]]]:
    """Return a program's outputs and, in order, what each equation gives."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), given, strict=True))
    made: list[tuple[str, Any]] = []
    fixed: set[int] = set()

    def read(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else known[atom]

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        if eqn.primitive.name == "jit":
            inner = eqn.params["jaxpr"]
            outs, within = evaluated(inner.jaxpr, [*inner.consts, *operands])
            made += within
        else:
            outs = eqn.primitive.bind(*operands, **eqn.params)
            outs = outs if eqn.primitive.multiple_results else [outs]
            # What depends on no argument is not measured.
            if any(id(known[x]) not in fixed for x in variables(eqn)):
                made.append((eqn.primitive.name, outs[0]))
            else:
                fixed.update(map(id, outs))
        known.update(zip(eqn.outvars, outs, strict=True))
    return [read(atom) for atom in jaxpr.outvars], made


def variables(eqn: Any) -> list[Any]:
    return [atom for atom in eqn.invars if not hasattr(atom, "val")]


def assert_moments(held: Summary, value: Any, tolerance: float) -> None:
    wide = np.asarray(value, np.float64)
    size = tolerance * float(np.sqrt(np.mean(wide**2)))
    assert held.mean == pytest.approx(wide.mean(), abs=size)
    # The mean of squares is as exact as the mean; their difference is what is left.
    assert held.std is not None
    assert held.std**2 == pytest.approx(wide.var(), abs=size * size / tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_sites_of_a_step_have_the_moments_of_their_values(dtype: Any) -> None:
    view, values = traced(dtype)
    sites = [s for s in view.trace.sites if s.kind == "operator"]
    phases: dict[str, int] = {}
    for key in {(s.op, s.shape) for s in sites}:
        alike = [s for s in sites if (s.op, s.shape) == key]
        made = [v for op, v in values if (op, v.shape) == key]
        for site, value in zip(alike, made, strict=True):
            held = view.summary(site)
            assert held is not None
            if held.total is None:
                assert math.prod(site.shape) > 4096
                assert site.op != "dot_general"
                continue
            assert_moments(held, value, 1e-5 if dtype == jnp.float32 else 1e-2)
            phases[site.phase] = phases.get(site.phase, 0) + 1
    assert phases["forward"] > 8
    assert phases["backward"] > 8


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_sums_of_any_size_agree_with_numpy(dtype: Any, size: int) -> None:
    # Adding one by one, float32 would lose a hundredth of a million equal values.
    x = jnp.full(size, 0.1, dtype).at[0].set(-3.0)
    wide = np.asarray(x, np.float64)
    held = measured(x)
    assert held.total == pytest.approx(wide.sum(), rel=1e-5)
    assert held.total_sq == pytest.approx((wide**2).sum(), rel=1e-5)


@pytest.mark.parametrize("value", [1e30, 1e-25])
def test_sum_of_squares_beyond_the_format_is_not_known(value: float) -> None:
    x = jnp.full(100, value, jnp.float32)
    held = measured(x)
    assert held.total == pytest.approx(100 * value)
    assert (held.total_sq, held.std) == (None, None)


def test_what_is_not_finite_has_no_sums() -> None:
    for bad in (jnp.nan, jnp.inf):
        held = measured(jnp.array([1.0, bad]))
        assert (held.total, held.total_sq) == (None, None)
    assert measured(jnp.zeros(4)).std == 0.0


def test_loop_has_the_moments_of_all_its_iterations() -> None:
    def run(x: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            new = jnp.sin(carry) * 1.5
            return new, new

        return jax.lax.scan(body, x, None, length=5)

    step = numcheck_jax.instrument(jax.jit(run), audit_first=False, level="trace")
    x = jnp.asarray(RNG.normal(size=7), jnp.float32)
    _, stacked = step(x)
    step.numcheck.close()
    trace = step.numcheck.trace
    assert trace is not None
    (site,) = [s for s in trace.sites if s.op == "mul"]
    held = trace.at(0).summary(site)
    assert held is not None
    assert held.n == 35
    assert_moments(held, stacked, 1e-5)


def measured(x: Any) -> Summary:
    words = jax.jit(row, static_argnames="measure")(x, "moments")
    return decode(np.asarray(words), x.dtype, x.size, "moments")
