# SPDX-License-Identifier: Apache-2.0
"""A simulated JAX program computes what the profile says, and else what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from click.testing import CliRunner
from flax import nnx
from jax import lax

import numcheck
import numcheck_jax
from numcheck import NonFiniteError, quantize
from numcheck.cli import cli
from numcheck.errors import ArgumentTypeError
from numcheck.monitor import NumcheckWarning
from numcheck.simulation import load
from numcheck.simulation.loading import parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = jax.random.key(0)
# Adam's bias correction is compiled inline, which tracing takes apart; a program that
# is compiled as a whole does not mind.
OPTIMIZERS = {False: optax.sgd(1e-2, momentum=0.9), True: optax.adamw(1e-2)}


def parameters() -> dict[str, jax.Array]:
    """Returns two layers and a filter of a small network."""
    a, b, c = jax.random.split(KEY, 3)
    return {
        "in": 0.1 * jax.random.normal(a, (40, 64)),
        "turn": 0.1 * jax.random.normal(b, (64, 64)),
        "out": 0.1 * jax.random.normal(c, (64, 5)),
    }


def loss_of(p: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns the loss of a network with a loop, a branch and a rematerialised part."""

    def turn(h: jax.Array, _: Any) -> tuple[jax.Array, None]:
        return jnp.tanh(h @ p["turn"]), None

    h, _ = lax.scan(jax.checkpoint(turn), x @ p["in"], length=3)
    h = lax.cond(h.sum() > 0, lambda h: h, lambda h: 2 * h, h)
    scores = jax.nn.gelu(h) @ p["out"]
    return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()


def step_with(optimizer: Any) -> Callable[..., Any]:
    """Returns a function that trains for a step."""

    def step(p: Any, state: Any, x: jax.Array, y: jax.Array) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(p, x, y)
        updates, state = optimizer.update(gradients, state, p)
        return optax.apply_updates(p, updates), state, loss

    return step


def batch() -> tuple[jax.Array, jax.Array]:
    """Returns inputs and labels."""
    return jax.random.normal(KEY, (16, 40)), jnp.arange(16) % 5


def trained(function: Callable[..., Any], optimizer: Any) -> Any:
    """Returns parameters, state and loss after two steps."""
    p = parameters()
    state, loss = optimizer.init(p), jnp.zeros(())
    for _ in range(2):
        p, state, loss = function(p, state, *batch())
    return p, state, loss


def equal(a: Any, b: Any) -> bool:
    """Returns whether all leaves agree in every bit."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(np.asarray(u), np.asarray(v)) for u, v in pairs)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jitted"])
def test_float32_everywhere_is_the_plain_program_bit_for_bit(compiled: bool) -> None:
    optimizer = OPTIMIZERS[compiled]
    step = step_with(optimizer)
    function = jax.jit(step) if compiled else step
    simulated = numcheck_jax.simulate(function, "float32")
    assert equal(trained(function, optimizer), trained(simulated, optimizer))


def test_a_simulated_program_can_be_compiled_as_a_whole() -> None:
    optimizer = OPTIMIZERS[True]
    step = step_with(optimizer)
    plain = trained(jax.jit(step), optimizer)
    whole = jax.jit(numcheck_jax.simulate(step, "float32"))
    assert equal(plain, trained(whole, optimizer))


@pytest.mark.parametrize("profile", ["mxfp8", "fp8-per-tensor", "bf16-accumulate"])
def test_gradients_are_the_same_from_inside_and_from_outside(profile: str) -> None:
    p, (x, y) = parameters(), batch()
    inside = numcheck_jax.simulate(jax.value_and_grad(loss_of), profile)(p, x, y)
    outside = jax.value_and_grad(numcheck_jax.simulate(loss_of, profile))(p, x, y)
    assert equal(inside, outside)
    assert not equal(inside, jax.value_and_grad(loss_of)(p, x, y))


def test_a_simulated_function_can_be_mapped() -> None:
    x = jax.random.normal(KEY, (3, 4, 32))
    one = numcheck_jax.simulate(lambda a: a @ a.T, "mxfp8")
    expected = jnp.stack([one(a) for a in x])
    assert np.allclose(jax.vmap(one)(x), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
def test_saturation_gives_the_largest_number_and_zero_for_nan(dtype: Any) -> None:
    largest = jnp.asarray(jnp.finfo(dtype).max, dtype)

    def program(x: jax.Array) -> list[jax.Array]:
        top = x * largest
        return [top + top, -top - top, jnp.log(x - x), (x - x) / (x - x)]

    found = numcheck_jax.simulate(program, "ascend910a")(jnp.ones((), dtype))
    assert [float(t) for t in found] == [largest, -largest, -largest, 0.0]


def test_casts_saturate_as_the_device_s_do() -> None:
    x = np.array([70000.0, -1e30, np.inf, np.nan, 65519.9, 1e-9], np.float32)
    cast = numcheck_jax.simulate(lambda x: x.astype(jnp.float16), "ascend910a")
    expected = numcheck.formats.cast(x, "float16", "ascend_saturation")
    assert np.array_equal(np.asarray(cast(jnp.asarray(x)), np.float32), expected)


def test_masks_of_infinity_are_moved_and_not_saturated() -> None:
    mask = jnp.array([True, False])
    fill = numcheck_jax.simulate(lambda x: jnp.where(mask, -jnp.inf, x), "ascend910a")
    assert fill(jnp.zeros(2)).tolist() == [-jnp.inf, 0.0]


@pytest.mark.parametrize("profile", ["mxfp8", "mxfp4", "tpu-bf16", "hif8", "fp8-block"])
def test_products_are_those_of_quantised_factors(profile: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((8, 80), (80, 6)))
    arithmetic = load(profile).arithmetic("matmul", "float32")
    left, right = arithmetic.factor("left"), arithmetic.factor("right")
    assert left is not None
    assert right is not None
    coarse = [left.quantized(a, -1), right.quantized(b, -2)]
    expected = np.float64(coarse[0]) @ np.float64(coarse[1])
    found = numcheck_jax.simulate(jnp.matmul, profile)(jnp.asarray(a), jnp.asarray(b))
    # Sums of 80 products in float32, in whatever order (Higham 2002, section 3.1).
    bound = 80 * 2.0**-24 * (np.abs(coarse[0]) @ np.abs(coarse[1]))
    assert np.all(np.abs(np.float64(found) - expected) <= bound)
    assert not np.allclose(found, a @ b, rtol=1e-4, atol=1e-4)


def test_several_axes_summed_over_are_one_axis_to_blocks() -> None:
    x, g = jax.random.normal(KEY, (2, 20, 6)), jax.random.normal(KEY, (2, 20, 7))
    found = numcheck_jax.simulate(
        lambda a, b: jnp.einsum("bti,btj->ij", a, b), "mxfp8"
    )(x, g)
    a, b = (np.asarray(t).reshape(40, -1) for t in (x, g))
    expected = quantize(a, "mxfp8", axis=0).T @ quantize(b, "mxfp8", axis=0)
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("profile", "fmt"), [("fp16-accumulate", "fp16"), ("bf16-accumulate", "bf16")]
)
def test_narrow_sums_are_those_of_numcheck_matmul(profile: str, fmt: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((5, 200), (200, 7)))
    expected = numcheck.matmul(a, b, fmt, accumulator=fmt, chunk=16)
    found = numcheck_jax.simulate(jnp.matmul, profile)(jnp.asarray(a), jnp.asarray(b))
    assert np.array_equal(found, expected.astype(np.float32))


def test_gradients_are_rounded_to_their_own_format() -> None:
    profile = parse("input = 'float32'\ngradient = 'float4_e2m1fn'", "coarse")
    x, w = jnp.full((2, 2), 1.1), jnp.full((2, 2), 1.1)
    loss = numcheck_jax.simulate(lambda w: ((x @ w) * 1.3).sum(), profile)
    value, gradient = jax.value_and_grad(loss)(w)
    assert np.allclose(value, ((x @ w) * 1.3).sum())
    # 1.3 is nearest to 1.5 among the values of the format.
    assert np.allclose(gradient, 2 * 1.1 * 1.5)


def test_convolutions_take_rounded_factors() -> None:
    x, w = jax.random.normal(KEY, (2, 3, 6, 6)), jax.random.normal(KEY, (4, 3, 3, 3))

    def convolve(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv(x, w, (1, 1), "VALID")

    coarse = [jnp.asarray(quantize(np.asarray(t), "hf32")) for t in (x, w)]
    found = numcheck_jax.simulate(convolve, "ascend910b")(x, w)
    assert np.allclose(found, convolve(*coarse), rtol=1e-5, atol=1e-5)
    assert not equal(found, convolve(x, w))


def test_outputs_are_rounded_where_a_profile_says_so() -> None:
    x = jnp.linspace(1, 2, 50)
    found = numcheck_jax.simulate(jnp.exp, parse("output = 'bf16'", "coarse"))(x)
    assert equal(found, jnp.exp(x).astype(jnp.bfloat16).astype(jnp.float32))


def test_a_low_precision_product_keeps_its_dtype() -> None:
    x = jax.random.normal(KEY, (4, 32), jnp.float16)
    assert numcheck_jax.simulate(lambda x: x @ x.T, "mxfp8")(x).dtype == jnp.float16


def test_modules_are_changed_in_place_as_the_function_changes_them() -> None:
    def trained_module(wrap: Callable[..., Any]) -> list[jax.Array]:
        model = nnx.Linear(32, 4, rngs=nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

        def train(model: Any, optimizer: Any, x: jax.Array) -> jax.Array:
            loss, gradients = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
            optimizer.update(model, gradients)
            return loss

        loss = wrap(train)(model, optimizer, jax.random.normal(KEY, (8, 32)))
        return [loss, *jax.tree.leaves(nnx.state(model))]

    plain = trained_module(lambda f: f)
    assert equal(plain, trained_module(lambda f: numcheck_jax.simulate(f, "float32")))
    coarse = trained_module(lambda f: numcheck_jax.simulate(f, "mxfp4"))
    assert not equal(plain, coarse)
    fresh = jax.tree.leaves(nnx.state(nnx.Linear(32, 4, rngs=nnx.Rngs(0))))
    assert not equal(coarse[1:], fresh)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="got int"):
        numcheck_jax.simulate(3, "mxfp8")  # type: ignore[arg-type]


def loud(x: jax.Array) -> jax.Array:
    """Returns a loss on whose way float16 overflows."""
    h = x * jnp.float16(200.0)
    return jnp.maximum(h, 0).astype(jnp.float32).mean()


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jitted"])
def test_an_overflow_that_the_device_keeps_is_explained(compiled: bool) -> None:
    function = numcheck_jax.simulate(jax.jit(loud) if compiled else loud, "ascend910b")
    watched = numcheck_jax.instrument(function, lag=0)
    with pytest.raises(NonFiniteError) as error:
        watched(jnp.full((4,), 1000.0, jnp.float16))
    finding = error.value.finding
    assert (finding.id, finding.site.op) == ("N101", "mul")
    assert finding.site.source is not None
    assert "jnp.float16(200.0)" in finding.site.source.text


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jitted"])
def test_an_overflow_that_the_device_hides_is_named(compiled: bool) -> None:
    function = numcheck_jax.simulate(jax.jit(loud) if compiled else loud, "ascend910a")
    watched = numcheck_jax.instrument(function, lag=0)
    with pytest.warns(NumcheckWarning, match="hidden by saturation"):
        out = watched(jnp.full((4,), 1000.0, jnp.float16))
    assert float(out) == 65504.0
    assert [(f.id, f.site.op) for f in watched.numcheck.findings] == [("N601", "mul")]


def test_compare_names_the_first_product_of_another_device(tmp_path: Path) -> None:
    def loss(p: Any, x: jax.Array) -> jax.Array:
        return ((jnp.tanh(x @ p["in"]) @ p["out"]) ** 2).mean()

    for profile in ("float32", "mxfp4"):
        step = numcheck_jax.simulate(jax.jit(jax.value_and_grad(loss)), profile)
        watched = numcheck_jax.instrument(step, level="trace", run=tmp_path / profile)
        with watched.numcheck:
            watched(parameters(), batch()[0])
    runs = [str(tmp_path / p) for p in ("float32", "mxfp4")]
    out = CliRunner().invoke(cli, ["compare", *runs, "--width", "200", "--all"])
    assert out.exit_code == 1
    rows = [line.split() for line in out.output.splitlines()]
    first = next(row for row in rows if row and row[0] == "DIFFERENT")
    assert first[2] == "forward.dot_general.0"
    assert any(row[:3] == ["follows", "result", "loss"] for row in rows)
    assert any(row[:2] == ["equal", "parameter"] for row in rows)
