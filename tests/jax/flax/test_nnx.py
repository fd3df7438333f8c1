# SPDX-License-Identifier: Apache-2.0
"""NNX: modules and optimizers that a step changes in place."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import numcheck_jax
from numcheck.errors import NonFiniteError
from numcheck_jax.capture import capture
from numcheck_jax.tracing import program_of

X = jax.random.normal(jax.random.key(0), (6, 4))
ZEROS = jnp.zeros((6, 4))


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(4, 4, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(4, use_bias=False, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return jnp.log(jnp.abs(self.norm(self.linear(x))))


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(rngs)])
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.drop(x)


def step(model: Any, optimizer: Any, x: Any) -> Any:
    loss, grads = nnx.value_and_grad(lambda m: jnp.mean(m(x) ** 2))(model)
    optimizer.update(model, grads)
    return loss


def fresh() -> tuple[Net, Any]:
    model = Net(nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)


def numbers(*objects: Any) -> list[Any]:
    leaves = jax.tree.leaves(nnx.state(objects))
    keys = jax.dtypes.prng_key
    return [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, keys) else x)
        for x in leaves
    ]


WAYS = {
    "eager": step,
    "jit": nnx.jit(step),
    "donated": nnx.jit(step, donate_argnums=(0, 1)),
}


@pytest.mark.parametrize("way", WAYS)
def test_modules_end_up_bit_equal_with_and_without_the_watch(way: str) -> None:
    mine, plain = fresh(), fresh()
    watched = numcheck_jax.instrument(WAYS[way])
    for scale in (1.0, 0.5):
        assert float(watched(*mine, scale * X)) == float(WAYS[way](*plain, scale * X))
    watched.numcheck.close()
    for a, b in zip(numbers(*mine), numbers(*plain), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [f for f in watched.numcheck.findings if f.severity == "error"] == []
    assert [e for e in watched.numcheck.events if e.name == "fault"] == []


@pytest.mark.parametrize("way", ["eager", "jit"])
def test_fault_is_named_by_module_path_and_replayed_from_the_old_state(
    way: str,
) -> None:
    watched = numcheck_jax.instrument(WAYS[way], audit_first=False)
    model, optimizer = fresh()
    watched(model, optimizer, ZEROS)
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    found = caught.value.finding
    assert (found.site.op, found.site.scope) == ("log", "Net.blocks.0")
    assert found.reproduced is True
    harm = [s.op for s in found.harm]
    assert harm[0] == "loss"
    assert "parameter:model.blocks[0].linear.kernel" in harm


def test_parameter_that_is_nan_before_the_step_is_named_by_its_module() -> None:
    watched = numcheck_jax.instrument(nnx.jit(step), audit_first=False)
    model, optimizer = fresh()
    kernel = model.blocks[0].linear.kernel
    kernel[...] = kernel[...].at[0, 0].set(jnp.nan)
    watched(model, optimizer, X)
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    assert caught.value.finding.site.op == "parameter:model.blocks[0].linear.kernel"


def test_skip_sets_modules_and_optimizer_back() -> None:
    watched = numcheck_jax.instrument(nnx.jit(step), audit_first=False, on_error="skip")
    model, optimizer = fresh()
    before = numbers(model, optimizer)
    with pytest.warns(UserWarning, match="logarithm"):
        watched(model, optimizer, ZEROS)
    for a, b in zip(numbers(model, optimizer), before, strict=True):
        np.testing.assert_array_equal(a, b)
    watched(model, optimizer, X)
    after = numbers(model, optimizer)
    assert not all(map(np.array_equal, after, before))


def test_functional_step_over_a_split_module_keeps_module_paths() -> None:
    model, optimizer = fresh()
    graph, state = nnx.split((model, optimizer))

    @jax.jit
    def functional(state: Any, x: Any) -> Any:
        model, optimizer = nnx.merge(graph, state)
        loss = step(model, optimizer, x)
        return nnx.state((model, optimizer)), loss

    watched = numcheck_jax.instrument(functional, audit_first=False)
    watched(state, ZEROS)
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    assert caught.value.finding.site.scope == "Net.blocks.0"


def test_shared_variables_stay_shared_in_the_replayed_program() -> None:
    class Tied(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.first = nnx.Linear(4, 4, rngs=rngs)
            self.again = self.first

        def __call__(self, x: Any) -> Any:
            return self.again(self.first(x))

    def tied_step(model: Any, x: Any) -> Any:
        loss, grads = nnx.value_and_grad(lambda m: jnp.mean(m(x) ** 2))(model)
        nnx.update(model, jax.tree.map(lambda p, g: p - g, nnx.state(model), grads))
        return loss

    model = Tied(nnx.Rngs(0))
    call = capture(tied_step, (model, X), {}, 0)
    program = program_of(call)
    outs = jax.core.eval_jaxpr(
        program.closed.jaxpr,
        program.closed.consts,
        *(call.leaves[i] for i in program.inputs),
    )
    loss = tied_step(model, X)
    named = {
        program.shape.name(key, call): out
        for key, out in zip(program.outputs, outs, strict=True)
    }
    np.testing.assert_allclose(named[""], loss, rtol=1e-6)
    kernel = named["model.again.kernel"]
    np.testing.assert_allclose(kernel, model.first.kernel[...], rtol=1e-5, atol=1e-6)


def test_module_classes_are_left_as_they_were() -> None:
    before = Block.__dict__["__call__"], nnx.Linear.__dict__["__call__"]
    watched = numcheck_jax.instrument(step, on_error="record")
    watched(*fresh(), ZEROS)
    watched.numcheck.close()
    assert (Block.__dict__["__call__"], nnx.Linear.__dict__["__call__"]) == before
