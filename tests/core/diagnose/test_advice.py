# SPDX-License-Identifier: Apache-2.0
"""Advice that fits what is divided by, averaged, logged or frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from numcheck.diagnose import diagnose
from tests.core.diagnose.story import Story

if TYPE_CHECKING:
    from numcheck.diagnose import Finding

f32 = np.float32
bf16 = ml_dtypes.bfloat16


def only(story: Story, **fields: Any) -> Finding:
    (found,) = diagnose(story.incident(**fields))
    assert found.cause is not None
    return found


def advised(found: Finding) -> list[str]:
    return [step.key for step in found.help]


@pytest.mark.parametrize("spread", ["variance", "select"])
def test_a_spread_or_a_largest_magnitude_that_is_zero_is_to_be_bounded(
    spread: Any,
) -> None:
    def measure(v: Any) -> Any:
        return np.ptp(v, axis=1, keepdims=True)

    story = Story()
    x = story.source("input", f32([[1, 2], [0, 0]]))
    effect = "move" if spread == "select" else "compute"
    width = story.op(spread, measure, x, effect=effect)
    story.keep("loss", story.op("div", np.divide, x, width))
    found = only(story)
    assert found.cause is not None
    assert found.cause.rule == "N054"
    assert advised(found) == ["std_at_least", "add_epsilon"]


def test_a_spread_of_one_sample_lacks_no_count() -> None:
    def advice(family: Any, samples: int) -> str:
        story = Story()
        x = story.source("input", np.ones(samples, f32))
        nothing = story.op(family, lambda _: f32(np.nan), x)
        story.keep("loss", nothing)
        return advised(only(story))[0]

    assert advice("variance", 1) == "spread_of_all"
    assert advice("mean", 0) == "count_at_least_one"


def test_the_logarithm_of_a_product_is_a_sum_of_logarithms() -> None:
    def advice(op: str, function: Any) -> str:
        story = Story()
        p = story.source("parameter", np.full(200, 0.1, f32), "p")
        product = story.op("cumulative", function, p, op=op)
        story.keep("loss", story.op("log", np.log, product))
        return advised(only(story))[0]

    assert advice("cumprod", np.cumprod) == "sum_logarithms"
    assert advice("cumsum", lambda v: np.cumsum(v - v)) == "clamp_argument"


@pytest.mark.parametrize(("eps", "rule"), [(1e-50, "N152"), (0.0, "N351")])
def test_an_epsilon_below_float32_is_none(eps: float, rule: str) -> None:
    story = Story()
    x = story.source("parameter", f32([0, 1]), "x")
    guarded = story.op("add", lambda v, e: v + f32(e), x, eps)
    story.keep("loss", story.op("log", np.log, guarded))
    found = only(story)
    assert found.cause is not None
    assert found.cause.rule == rule
    assert "float32_master" not in advised(found)


def test_frozen_weights_are_to_be_kept_in_float32_and_counters_to_count_there() -> None:
    def advice(role: Any) -> str:
        story = Story()
        before = story.source(role, np.full(9, 256, bf16), "n")
        after = story.op("add", lambda v: (v + 1).astype(v.dtype), before)
        story.keep(role, after, "n")
        return advised(only(story, audited=True))[0]

    assert advice("parameter") == "float32_master"
    assert advice("buffer") == "float32_accumulator"


@pytest.mark.parametrize(
    ("labels", "rule"), [([100, 0], "N052"), ([-1, 1], "N052"), ([1, 1], "N359")]
)
def test_labels_of_a_binary_cross_entropy_are_shares(
    labels: list[float], rule: str
) -> None:
    story = Story()
    scores = story.source("parameter", f32([3e38, 3e38]), "w")
    given = story.source("target", f32(labels), "y")
    op = "aten.binary_cross_entropy_with_logits.default"
    loss = story.op("loss", lambda s, _: s.sum(), scores, given, op=op)
    story.keep("loss", loss)
    found = only(story)
    assert found.cause is not None
    assert found.cause.rule == rule
