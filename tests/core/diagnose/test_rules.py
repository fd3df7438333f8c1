# SPDX-License-Identifier: Apache-2.0
"""Programs that NumPy runs and that break, and what is said about them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numcheck.diagnose import diagnose
from numcheck.errors import ArgumentTypeError
from tests.core.diagnose.story import Story, only, ran, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.diagnose import Incident
    from numcheck.diagnose.incident import Experiment

f32 = np.float32
f16 = np.float16


def unary(
    family: str, function: Callable[..., Any], operand: Any, **fields: Any
) -> Incident:
    story = Story()
    x = story.source("input", operand)
    w = story.source("parameter", np.ones_like(operand), "w")
    product = story.op("mul", np.multiply, x, w)
    story.keep("loss", story.op(family, function, product, **fields))
    return story.incident()


ALONE = {
    "log of zero": ("log", np.log, f32([0, 1]), "N301"),
    "log of a negative": ("log", np.log, f32([-1, 1]), "N301"),
    "root of a negative": ("sqrt", np.sqrt, f32([-1, 1]), "N302"),
    "reciprocal of zero": ("reciprocal", np.reciprocal, f32([0, 1]), "N303"),
    "exponential": ("exp", np.exp, f32([89, 1]), "N104"),
    "square": ("square", np.square, f32([1e20, 1]), "N107"),
    "sum": ("sum", np.sum, f32([3e38, 3e38]), "N103"),
    "arcsine": ("inverse_bounded", np.arcsin, f32([1.5, 0]), "N311"),
}


@pytest.mark.parametrize("name", sorted(ALONE))
def test_an_operator_that_breaks_alone_is_named(name: str) -> None:
    family, function, operand, expected = ALONE[name]
    assert only(unary(family, function, operand)).id == expected


def binary(family: str, function: Any, a: Any, b: Any, **fields: Any) -> Incident:
    story = Story()
    x, y = story.source("parameter", a, "a"), story.source("parameter", b, "b")
    story.keep("loss", story.op(family, function, x, y, **fields))
    return story.incident()


def test_a_quotient_is_told_by_what_its_operands_held() -> None:
    assert only(binary("div", np.divide, f32([1, 1]), f32([0, 1]))).id == "N303"
    assert only(binary("div", np.divide, f32([0, 1]), f32([0, 1]))).id == "N304"
    large, small = f32([1e30, 1]), f32([1e-30, 1])
    assert only(binary("div", np.divide, large, small)).id == "N101"


def test_a_matrix_product_of_finite_factors_overflows_even_to_nan() -> None:
    a, b = f32([[3e38, 3e38]]), f32([[2.0], [-2.0]])
    found = only(binary("matmul", np.matmul, a, b))
    assert (found.id, found.kind) == ("N102", "nan")


def test_a_derivative_at_the_edge_is_told_apart_from_a_plain_division() -> None:
    story = Story()
    w = story.source("parameter", f32([0, 1]), "w")
    root = story.op("sqrt", np.sqrt, w)
    slope = story.op(
        "div", np.divide, 0.5, root, phase="backward", detail=(("forward_op", "sqrt"),)
    )
    story.keep("loss", root)
    story.keep("gradient", slope, "w")
    assert told(story.incident()) == ("N309", "op-domain", "N354")


def test_a_gather_past_the_end_blames_the_labels() -> None:
    story = Story()
    w = story.source("parameter", f32([1, 2, 3]), "w")
    labels = story.source("target", np.array([0, 3]))

    def fill(values: Any, at: Any) -> Any:
        return np.where(at < len(values), values[np.minimum(at, 2)], f32(np.nan))

    story.keep("loss", story.op("gather", fill, w, labels))
    found = only(story.incident())
    assert told(story.incident()) == ("N006", "data", "N052")
    assert found.evidence[0].fields == {"high": 3.0}


@pytest.mark.parametrize(
    ("role", "expected", "cls"),
    [
        ("input", "N001", "data"),
        ("target", "N002", "data"),
        ("parameter", "N003", "dynamics"),
        ("buffer", "N004", "dynamics"),
        ("state", "N005", "dynamics"),
    ],
)
def test_what_was_bad_before_the_step_is_named(
    role: Any, expected: str, cls: str
) -> None:
    story = Story()
    x = story.source(role, f32([np.nan, 1]))
    story.keep("loss", story.op("sum", np.sum, x))
    assert told(story.incident())[:2] == (expected, cls)


@pytest.mark.parametrize("role", ["constant", "target"])
def test_a_zero_divisor_that_was_given_is_no_count_of_the_batch(role: Any) -> None:
    story = Story()
    w = story.source("parameter", f32([0.5]), "w")
    story.keep("loss", story.op("div", np.divide, w, story.source(role, f32([0]))))
    assert told(story.incident()) == ("N303", "op-domain", "N351")


def test_samples_that_fail_only_together_are_no_outliers() -> None:
    def overflow(*experiments: Experiment) -> Incident:
        story = Story()
        x = story.source("input", f32([1, 3e4]))
        story.keep("loss", story.op("exp", np.exp, x))
        return story.incident(*experiments)

    alone = ran("rows", "healthy", rows="1", count=1, of=2)
    together = ran("rows", "healthy", rows="0, 1", count=2, of=9, together=1)
    assert told(overflow(alone))[2] == "N055"
    found = only(overflow(together))
    assert found.cause is not None
    assert found.cause.rule != "N055"
    assert "rows_together_healthy" in [e.key for e in found.evidence]


def test_a_count_of_the_batch_is_data_and_a_zero_layer_is_dynamics() -> None:
    counted = Story()
    w = counted.source("parameter", f32([0.5]), "w")
    mask = counted.source("input", f32([0, 0]), "mask")
    kept = counted.op("mul", np.multiply, mask, w)
    total = counted.op("sum", np.sum, kept)
    counted.keep(
        "loss", counted.op("div", np.divide, total, counted.op("sum", np.sum, mask))
    )
    assert told(counted.incident()) == ("N304", "data", "N054")
    layer = Story()
    w = layer.source("parameter", f32([0, 0]), "w")
    x = layer.source("input", f32([1, 2]))
    out = layer.op("mul", np.multiply, x, w)
    norm = layer.op("norm", np.linalg.norm, out)
    layer.keep("loss", layer.op("div", np.divide, out, norm))
    assert told(layer.incident()) == ("N304", "dynamics", "N755")


def test_an_integer_square_that_wrapped_is_the_cause_of_the_root() -> None:
    story = Story()
    x = story.source("input", np.int32([50_000, 3]))
    square = story.op("mul", np.multiply, x, x)
    wide = story.cast(square, "float32")
    story.keep("loss", story.op("sqrt", np.sqrt, wide))
    assert told(story.incident()) == ("N302", "data", "N053")


def half_sum() -> Story:
    story = Story()
    x = story.source("parameter", np.full(4096, 5, f16), "w")
    story.keep("loss", story.op("sum", lambda v: np.sum(v * v, dtype=v.dtype), x))
    return story


def test_what_float32_heals_is_a_matter_of_precision() -> None:
    healthy = half_sum().incident(ran("float32", "healthy", amax=1.0))
    assert told(healthy) == ("N103", "precision", "N151")
    failed = half_sum().incident(ran("float32", "failed", amax=1.0))
    assert told(failed)[1] != "precision"


def test_an_epsilon_below_the_smallest_number_is_found_behind_the_root() -> None:
    story = Story()
    v = story.source("parameter", f16([0, 1]), "v")
    guarded = story.op("add", lambda a, b: a + a.dtype.type(b), v, 1e-9)
    story.keep("loss", story.op("rsqrt", lambda a: 1 / np.sqrt(a), guarded))
    incident = story.incident(ran("float32", "healthy"))
    assert told(incident) == ("N303", "precision", "N152")
    assert only(incident).evidence[-1].fields["eps"] == 1e-9


def test_an_epsilon_is_found_in_a_term_of_an_average_of_squares() -> None:
    story = Story()
    g = story.source("constant", f16([0, 1]), "g")
    v = story.source("state", f16([0, 0]), "v")
    square = story.op("square", np.square, g, phase="optimizer")
    guarded = story.op("add", np.add, square, 0.0, phase="optimizer")
    rate = story.source("constant", np.float32(0.5), "rate")
    old = story.op("mul", np.multiply, rate, v, phase="optimizer")
    new = story.op("mul", np.multiply, rate, guarded, phase="optimizer")
    average = story.op("add", np.add, old, new, phase="optimizer")
    half = story.cast(average, "float16", phase="optimizer")
    root = story.op("pow", np.power, half, -0.5, phase="optimizer")
    story.keep("parameter", root, "w")
    assert told(story.incident(ran("float32", "failed"))) == (
        "N312", "precision", "N152",
    )  # fmt: skip


def test_a_large_loss_scale_is_named() -> None:
    story = Story()
    g = story.source("constant", f32([1e-2]), "g")
    scaled = story.op("mul", np.multiply, g, 2.0**24, phase="backward")
    story.keep("gradient", story.cast(scaled, "float16", phase="backward"), "w")
    incident = story.incident(ran("float32", "healthy"))
    assert told(incident) == ("N105", "precision", "N153")


def test_a_state_that_grows_by_iteration_is_dynamics() -> None:
    story = Story()
    w = story.source("parameter", f32(8.0), "w")
    h = story.source("input", f32(1.0))
    for i in range(50):
        h = story.op("mul", np.multiply, h, w, iteration=(i,))
    story.keep("loss", h)
    assert told(story.incident()) == ("N101", "dynamics", "N756")


def test_a_power_that_grows_ever_faster_is_dynamics_from_its_first_iteration() -> None:
    story = Story()
    x = story.source("input", f32(6.0))
    for _ in range(4):
        cube = story.op("pow", lambda v: v**3, x, line=1)
        x = story.op("sub", lambda a, b: a - 0.5 * b, x, cube, line=2)
    story.keep("loss", x)
    assert told(story.incident()) == ("N107", "dynamics", "N756")


def test_layers_that_grow_are_a_matter_of_initialisation() -> None:
    story = Story()
    rng = np.random.default_rng(0)
    h = story.source("input", rng.normal(size=(2, 64)).astype(f32))
    for i in range(60):
        w = story.source("parameter", rng.normal(size=(64, 64)).astype(f32), f"w{i}")
        h = story.op("matmul", np.matmul, h, w, line=i)
    story.keep("loss", h)
    found = only(story.incident())
    assert told(story.incident())[1:] == ("dynamics", "N754")
    assert found.evidence[-1].fields["factor"] == pytest.approx(8, rel=0.3)


def test_a_single_sentinel_value_is_data() -> None:
    story = Story()
    x = story.source("input", f32([1e30, 1, 2, 3]))
    story.keep("loss", story.op("square", np.square, x))
    incident = story.incident(ran("rows", "healthy", rows="0", count=1, of=4))
    assert told(incident) == ("N107", "data", "N055")


def test_raw_pixels_with_ordinary_weights_are_data() -> None:
    story = Story()
    rng = np.random.default_rng(0)
    x = story.source("input", rng.uniform(0, 255, (4, 64)).astype(f32))
    w = story.source("parameter", rng.normal(0, 0.125, (64, 8)).astype(f32), "w")
    logits = story.op("matmul", np.matmul, x, w)
    story.keep("loss", story.op("exp", np.exp, logits))
    assert told(story.incident()) == ("N104", "data", "N056")


def test_a_negative_variance_out_of_a_difference_is_cancellation() -> None:
    story = Story()
    x = story.source("parameter", np.full(3, 4097.3, f32), "w")
    square = story.op("mean", lambda v: np.mean(v * v, dtype=v.dtype), x)
    mean = story.op("mean", lambda v: np.mean(v, dtype=v.dtype), x)
    squared = story.op("square", np.square, mean)
    # One unit in the last place too much, as another order of summation gives it.
    squared = story.op("select", lambda v: np.nextafter(v, f32(np.inf)), squared)
    variance = story.op("sub", np.subtract, square, squared)
    story.keep("loss", story.op("sqrt", np.sqrt, variance))
    assert told(story.incident()) == ("N302", "precision", "N452")


def test_a_row_that_is_masked_away_whole_is_named() -> None:
    story = Story()
    w = story.source("parameter", f32([[1, 2]]), "w")
    masked = story.op("select", np.full_like, w, -np.inf, effect="move")
    top = story.op("select", np.max, masked, op="max", effect="move")
    shifted = story.op("sub", np.subtract, masked, top)
    story.keep("loss", story.op("exp", np.exp, shifted))
    assert told(story.incident()) == ("N307", "op-domain", "N353")


def test_a_finding_carries_facts_chain_and_harm() -> None:
    found = only(unary("log", np.log, f32([0, 1])))
    assert [f.label for f in found.facts] == ["input", "output"]
    assert found.chain[-1][0].op == "loss"
    assert found.site in [site for site, _ in found.chain]
    assert len(found.chain) <= 8
    assert [s.op for s in found.harm] == ["loss"]


def test_a_healthy_step_gives_no_finding() -> None:
    assert diagnose(unary("log", np.log, f32([2, 1]))) == ()


def test_a_failure_that_the_replay_does_not_show_is_said_so() -> None:
    incident = unary("log", np.log, f32([2, 1]))
    (found,) = diagnose(dataclasses.replace(incident, reproduced=False))
    assert (found.id, found.cause, found.reproduced) == ("N902", None, False)


def test_a_returned_nan_without_operators_has_no_cause() -> None:
    story = Story()
    x = story.source("input", f32([1.0]))
    nan = dataclasses.replace(x, array=f32([np.nan]), shadow=f32([np.nan]))
    story.keep("loss", nan)
    found = only(story.incident())
    assert (found.id, found.cause) == ("N903", None)


def masked_half(line: str) -> Story:
    story = Story()
    w = story.source("parameter", f16([[1, 2]]), "w")
    masked = story.op(
        "select", np.full_like, w, -np.inf, effect="move", op="select_n", text=line
    )
    top = story.op("select", np.max, masked, op="max", effect="move")
    shifted = story.op("sub", np.subtract, masked, top)
    story.keep("loss", story.op("exp", np.exp, shifted))
    return story


def test_a_mask_of_minus_1e9_in_float16_is_a_matter_of_precision() -> None:
    assert told(masked_half("s = jnp.where(ok, s, -1e9)").incident()) == (
        "N307",
        "precision",
        "N155",
    )
    assert told(masked_half("s = jnp.where(ok, s, -jnp.inf)").incident()) == (
        "N307",
        "op-domain",
        "N353",
    )


def diverged(scale: float, rate: float) -> Incident:
    """Return a regression whose weight left the range at step 7."""
    story = Story(step=7)
    rng = np.random.default_rng(0)
    x = story.source("input", (scale * rng.uniform(0, 1, (8, 4))).astype(f32))
    w = story.source("parameter", np.full((4, 1), 1e38, f32), "w")
    story.keep(
        "loss", story.op("square", np.square, story.op("matmul", np.matmul, x, w))
    )
    healthy = ran("initial_parameters", "healthy")
    return story.incident(healthy, settings={"lr": rate})


def test_a_rate_that_only_raw_inputs_make_diverge_is_the_fault_of_the_data() -> None:
    assert told(diverged(255.0, 0.01))[1:] == ("data", "N056")
    assert told(diverged(255.0, 3.0))[1:] == ("dynamics", "N751")
    assert told(diverged(1.0, 0.01))[1:] == ("dynamics", "N751")


@pytest.mark.parametrize("given", ["x", None, 3])
def test_what_is_no_incident_is_refused_by_name(given: object) -> None:
    with pytest.raises(ArgumentTypeError, match="incident must be a numcheck"):
        diagnose(given)  # type: ignore[arg-type]
