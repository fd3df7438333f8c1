# SPDX-License-Identifier: Apache-2.0
"""Harm without NaN or Inf, and the healthy programs that must stay silent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from numcheck.diagnose import diagnose
from tests.core.diagnose.story import Story

if TYPE_CHECKING:
    from numcheck.diagnose import Finding
    from numcheck.record.site import Family, Role

f32 = np.float32
f16 = np.float16
bf16 = ml_dtypes.bfloat16


def found(story: Story, **fields: Any) -> tuple[Finding, ...]:
    return diagnose(story.incident(audited=True, **fields))


def small_gradient(scale: float, dtype: str = "float16") -> Story:
    story = Story()
    w = story.source("parameter", np.ones(8, dtype), "w")
    story.keep("loss", w)
    g = story.source("constant", np.full(8, 1e-8, f32), "g")
    scaled = story.op("mul", np.multiply, g, scale, phase="backward")
    story.keep("gradient", story.cast(scaled, dtype, phase="backward"), "w")
    return story


def test_a_gradient_below_half_of_the_smallest_number_is_lost() -> None:
    (finding,) = found(small_gradient(1.0))
    assert (finding.id, finding.kind, finding.site.op) == (
        "N201",
        "underflow",
        "convert",
    )
    assert finding.cause
    assert finding.cause.cls == "precision"
    assert [s.op for s in finding.harm] == ["gradient:w"]


def test_a_scaled_gradient_and_a_wider_range_are_not() -> None:
    assert found(small_gradient(2.0**14)) == ()
    assert found(small_gradient(1.0, "bfloat16")) == ()


@pytest.mark.parametrize(("largest", "told"), [(4e3, True), (448.0, False)])
def test_a_conversion_that_cuts_off_most_of_a_value_is_a_warning(
    largest: float, told: bool
) -> None:
    story = Story()
    x = story.source("parameter", np.linspace(1, largest, 64).astype(f32), "x")
    cut = story.cast(x, "float8_e4m3fn", most=448)
    story.keep("loss", story.cast(cut, "float32"))
    findings = found(story)
    assert [(f.id, f.severity) for f in findings] == [("N108", "warning")] * told


@pytest.mark.parametrize(("scale", "lost"), [(1e-5, 1), (16.0, 0)])
def test_the_slope_of_a_mean_over_many_is_lost_in_half_unless_scaled(
    scale: float, lost: int
) -> None:
    story = Story()
    guess = story.source("parameter", np.linspace(-1, 1, 4096).astype(f16), "guess")
    truth = story.source("target", np.zeros(4096, f16), "truth")
    grad = story.source("constant", f16(scale), "grad")

    def slope(g: Any, a: Any, b: Any) -> Any:
        return (2 * f32(g) * (f32(a) - f32(b)) / a.size).astype(a.dtype)

    passed = story.op(
        "loss", slope, grad, guess, truth, phase="backward",
        op="aten.mse_loss_backward.default", detail=(("reduction", 1),),
    )  # fmt: skip
    story.keep("loss", grad)
    story.keep("gradient", passed, "guess")
    assert [f.id for f in found(story)] == ["N201"] * lost


def test_an_infinity_that_a_reciprocal_hides_is_an_overflow() -> None:
    story = Story()
    x = story.source("input", np.full((2, 512), 16, f16))
    square = story.op("mul", np.multiply, x, x)
    total = story.op("sum", lambda v: np.sum(v, -1, dtype=v.dtype), square)
    root = story.op("rsqrt", lambda v: 1 / np.sqrt(v), total)
    story.keep(
        "output", story.op("mul", lambda a, b: a * b[:, None].astype(a.dtype), x, root)
    )
    (finding,) = found(story)
    assert (finding.id, finding.kind, finding.site.op) == ("N103", "+inf", "sum")


def test_a_counter_that_sticks_is_found_at_its_addition() -> None:
    story = Story()
    n = story.source("constant", np.zeros((), bf16), "n")
    for i in range(600):
        n = story.op(
            "add", lambda a, b: a + np.asarray(b, a.dtype), n, 1.0, iteration=(i,)
        )
    story.keep("output", n)
    (finding,) = found(story)
    assert (finding.id, finding.kind, finding.site.op) == ("N401", "stagnation", "add")
    assert finding.evidence[0].fields["large"] == 256.0


def test_noise_left_by_a_cancellation_is_no_fault() -> None:
    story = Story()
    rng = np.random.default_rng(0)
    a = story.source("input", (1 + rng.normal(0, 1e-6, 64)).astype(f32))
    low = story.cast(a, "float16")
    story.keep("gradient", story.op("sub", lambda v: v - v.mean(dtype=v.dtype), low))
    assert story.departures[2] > 0.5
    assert found(story) == ()


def test_angles_coarser_than_a_turn_lose_all_significance() -> None:
    story = Story()
    positions = story.source("input", np.arange(4096, dtype=np.int32))
    angles = story.cast(positions, "bfloat16")
    wide = story.op("trigonometric", np.sin, angles, op="sin")
    story.keep("loss", wide)
    (finding,) = found(story)
    assert (finding.id, finding.kind) == ("N402", "departure")


def update(rate: float, dtype: Any = bf16, weights: int = 2) -> Story:
    story = Story()
    rng = np.random.default_rng(0)
    story.keep("loss", story.source("constant", f32(1.0)))
    for i in range(weights):
        w = story.source("parameter", rng.normal(size=64).astype(dtype), f"w{i}")
        g = story.source("constant", rng.normal(size=64).astype(dtype), f"g{i}")

        def moved(a: Any, b: Any) -> Any:
            return (a - f32(rate) * b).astype(a.dtype)

        new = story.op("add", moved, w, g, phase="optimizer")
        story.keep("parameter", new, f"w{i}")
    return story


def test_weights_that_no_update_moves_are_frozen() -> None:
    (finding,) = found(update(1e-6))
    assert (finding.id, finding.kind, finding.phase) == (
        "N401",
        "stagnation",
        "optimizer",
    )
    assert len(finding.harm) == 2


@pytest.mark.parametrize("rate", [1e-2, 0.0])
def test_weights_that_move_or_are_not_meant_to_are_not_frozen(rate: float) -> None:
    assert found(update(rate)) == ()


def test_float32_weights_are_never_frozen() -> None:
    assert found(update(1e-12, f32)) == ()


def test_one_frozen_norm_among_moving_weights_is_no_fault() -> None:
    story = update(1e-2, weights=4)
    w = story.source("parameter", np.ones(4, bf16), "norm")
    tiny = story.op(
        "add", lambda a: (a + f32(1e-4)).astype(a.dtype), w, phase="optimizer"
    )
    story.keep("parameter", tiny, "norm")
    assert found(story) == ()


def test_an_infinite_scaled_gradient_is_the_search_for_a_scale() -> None:
    story = Story()
    story.keep("loss", story.source("constant", f32(1.0)))
    g = story.source("constant", f32([1e6]), "g")
    story.keep("gradient", story.cast(g, "float16", phase="backward"), "w")
    assert found(story)
    assert found(story, settings={"dynamic_loss_scale": True}) == ()


def broken_by_operators() -> Story:
    """Op by op float16 sqrt(x * x) overflows; a compiler may simplify it away."""
    story = Story()
    x = story.source("input", f16([300.0]))
    square = story.op("mul", np.multiply, x, x)
    story.keep("output", story.op("sqrt", np.sqrt, square))
    return story


def test_what_breaks_only_operator_by_operator_is_a_note() -> None:
    story = broken_by_operators()
    kept = max(story.departures)
    story.departures[kept] = 0.001  # as the compiled program itself departs
    (finding,) = found(story)
    assert (finding.id, finding.severity) == ("N101", "note")


def test_an_audit_of_a_program_that_runs_operator_by_operator_is_an_error() -> None:
    (finding,) = found(broken_by_operators(), reproduced=True)
    assert (finding.id, finding.severity) == ("N101", "error")


@pytest.mark.parametrize("role", ["buffer", "state"])
@pytest.mark.parametrize(("count", "sticks"), [(256, True), (255, False)])
def test_a_counter_sticks_where_its_format_counts_in_twos(
    role: Role, count: float, sticks: bool
) -> None:
    story = Story()
    before = story.source(role, np.array(count, bf16), "count")
    story.keep(
        role, story.op("add", lambda c: (c + 1).astype(c.dtype), before), "count"
    )
    assert [f.id for f in found(story)] == ["N401"] * sticks


def test_an_average_of_squares_too_slow_for_its_format_is_the_optimizer_s_affair() -> (
    None
):
    story = Story()
    before = story.source("state", np.array(1, bf16), "exp_avg_sq")
    decayed = story.op("mul", lambda v: (v * 0.999).astype(v.dtype), before)
    after = story.op("add", lambda v: (v + 1e-5).astype(v.dtype), decayed)
    story.keep("state", after, "exp_avg_sq")
    assert found(story) == ()


def lerped(rate: float, distance: float, family: Family = "mul") -> list[str]:
    """Move an average of large and small numbers towards others, in bfloat16."""
    story = Story()
    values = np.geomspace(1, 0.5, 64)
    values[0] = 1e-4
    before = story.source("buffer", values.astype(bf16), "ema")
    new = story.source("parameter", (1 + distance) * values.astype(bf16).astype(f32))

    def step(old: Any, new: Any, rate: float) -> Any:
        wide = old.astype(f32) + f32(rate) * (new.astype(f32) - old.astype(f32))
        wide[..., 0] += f32(1e-6)
        return wide.astype(old.dtype)

    story.keep("buffer", story.op(family, step, before, new, rate), "ema")
    return [f.id for f in found(story)]


def test_an_average_that_is_far_and_hardly_moves_has_not_arrived() -> None:
    assert lerped(1e-3, 0.5) == ["N401"]
    assert lerped(1e-3, 0.01) == []
    assert lerped(0.1, 0.5) == []
    # Two roundings, of a product and a sum, tremble where a lerp stands still.
    assert lerped(1e-3, 0.5, "add") == []


def looped(terms: int) -> tuple[Finding, ...]:
    """Add uneven numbers in bfloat16, one after another, and keep their mean."""
    story = Story()
    x = story.source("input", np.linspace(0.99, 1.01, 8).astype(bf16))
    total = story.source("constant", np.zeros(8, bf16), "zero")
    for _ in range(terms):
        total = story.op("add", np.add, total, x)
    story.keep("output", total)
    return found(story)


def test_a_long_sum_in_few_bits_stagnates_though_some_of_it_still_moves() -> None:
    (finding,) = looped(900)
    assert (finding.id, finding.kind) == ("N401", "stagnation")
    assert [e.key for e in finding.evidence] == ["coarse_sum", "departs"]
    assert finding.site.index < 500  # where it begins to be lost, not at the end


def test_a_short_sum_in_few_bits_does_not() -> None:
    assert looped(200) == ()


@pytest.mark.parametrize(("killer", "ids"), [("relu", ["N309"]), ("std", [])])
def test_a_derivative_that_replaces_its_own_nan_smothers_nothing(
    killer: str, ids: list[str]
) -> None:
    def of(op: str) -> dict[str, Any]:
        return {"phase": "backward", "detail": (("forward_op", op),)}

    story = Story()
    flat = story.source("parameter", f32([0, 0]), "w")
    story.keep("loss", flat)
    slope = story.op("div", np.divide, flat, flat, **of("std"))
    kept = story.op("select", lambda v: np.where(v > 0, v, f32(0)), slope, **of(killer))
    story.keep("gradient", kept, "w")
    assert [f.id for f in diagnose(story.incident())] == ids
