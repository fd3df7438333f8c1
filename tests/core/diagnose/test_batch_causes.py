# SPDX-License-Identifier: Apache-2.0
"""When the batch is to blame, when the formula is, and when the steps before are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numcheck.diagnose import diagnose
from tests.core.diagnose.story import Story, ran, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.diagnose import Incident

f32 = np.float32
ALONE = ran("rows", "healthy", rows="1", count=1, of=4)


def logit(p: Any) -> Any:
    return np.log(p) - np.log1p(-p)


@pytest.mark.parametrize(
    ("family", "function", "fed", "cls"),
    [
        ("log", logit, [0.5, 1, 0.2, 0.3], "op-domain"),
        ("log", np.log, [3, 0, 2, 1], "op-domain"),
        ("inverse_bounded", np.arctanh, [0, 1, 0, 0.5], "op-domain"),
        ("log", np.log, [3, -1, 2, 1], "data"),
        ("log", np.log1p, [3, -1, 2, 1], "data"),
        ("inverse_bounded", np.arctanh, [0, 5, 0, 0.5], "data"),
    ],
)
def test_a_sample_is_to_blame_outside_a_domain_and_a_guard_is_missing_at_its_edge(
    family: str, function: Callable[..., Any], fed: list[float], cls: str
) -> None:
    story = Story()
    story.keep("loss", story.op(family, function, story.source("input", f32(fed))))
    assert told(story.incident(ALONE))[1] == cls


def test_a_divisor_looked_up_in_a_table_is_no_count_of_the_batch() -> None:
    story = Story()
    x = story.source("input", f32([1, 2]))
    at = story.source("input", np.array([0, 1]), "t")
    table = story.source("buffer", f32([1, 0]), "schedule")
    step = story.op("gather", lambda v, i: v[i], table, at, effect="move")
    root = story.op("sqrt", np.sqrt, step)
    story.keep("loss", story.op("div", np.divide, x, root))
    assert told(story.incident(ALONE)) == ("N303", "op-domain", "N351")


def test_a_count_of_flags_that_is_zero_is_an_empty_group() -> None:
    story = Story()
    w = story.source("parameter", f32([0, 0]), "w")
    # Where the flags came from is not on record.
    flags = story.op("cast", lambda: f32([0, 0]), effect="cast")
    count = story.op("sum", np.sum, flags)
    story.keep("loss", story.op("div", np.divide, story.op("sum", np.sum, w), count))
    assert told(story.incident()) == ("N304", "data", "N054")


def test_a_power_below_zero_of_a_count_divides_by_it() -> None:
    story = Story()
    adjacent = story.source("input", f32([[0, 1], [0, 0]]))
    degree = story.op("sum", lambda v: v.sum(1), adjacent)
    story.keep("loss", story.op("pow", np.power, degree, -0.5))
    assert told(story.incident()) == ("N312", "data", "N054")


def test_an_unsigned_difference_that_wrapped_is_the_cause_of_the_overflow() -> None:
    def waited(now: list[int]) -> Incident:
        story = Story()
        a = story.source("input", np.uint32(now), "a")
        b = story.source("input", np.uint32([90, 201]), "b")
        seconds = story.cast(story.op("sub", np.subtract, a, b), "float32")
        w = story.source("parameter", f32(1), "w")
        scaled = story.op("mul", np.multiply, seconds, w)
        story.keep("loss", story.op("exp", np.exp, scaled))
        return story.incident()

    assert told(waited([100, 200])) == ("N104", "data", "N053")
    assert told(waited([500, 500]))[2] != "N053"


def test_taking_a_negative_number_away_from_unsigned_ones_adds() -> None:
    story = Story()
    pixels = story.source("input", np.uint8([100, 200]))
    more = story.op("sub", lambda a, b: (a.astype(int) - b).astype("u1"), pixels, -50)
    w = story.source("parameter", f32(1), "w")
    scaled = story.op("mul", np.multiply, story.cast(more, "float32"), w)
    story.keep("loss", story.op("exp", np.exp, scaled))
    found = diagnose(story.incident())[0]
    assert found.id == "N104"
    assert found.cause is None or found.cause.rule != "N053"


def test_what_a_selection_drops_is_not_the_fault_of_large_inputs() -> None:
    def softplus(*, selects: bool) -> Incident:
        story = Story()
        x = story.source("input", f32([1, 120, 90, 4]))
        large = story.source("constant", np.array([False, True, True, False]), "large")
        power = story.op("exp", np.exp, x)
        if selects:
            out = story.op("select", lambda m, p: np.where(m, f32(9), p), large, power)
            story.keep("loss", out)
            nought = story.source("constant", f32([1, 0, 0, 1]), "picked")
            slope = story.op("mul", np.multiply, nought, power, phase="backward")
            story.keep("gradient", slope, "w")
        else:
            story.keep("loss", power)
        return story.incident()

    assert told(softplus(selects=True)) == ("N104", "op-domain", "N352")
    assert told(softplus(selects=False)) == ("N104", "data", "N056")


@pytest.mark.parametrize(("size", "rule"), [(0.0, "N304"), (1e30, "N103")])
def test_a_fused_normalisation_of_nothing_is_no_overflow(
    size: float, rule: str
) -> None:
    def normalised(v: Any) -> Any:
        # E[x^2] - E[x]^2 is 0 - 0 for the one and Inf - Inf for the other.
        return v / np.sqrt(np.mean(v * v, -1) - np.mean(v, -1) ** 2)[:, None]

    story = Story()
    v = story.source("input", np.full((2, 4), size, f32))
    story.keep("loss", story.op("normalisation", normalised, v))
    assert told(story.incident())[0] == rule


@pytest.mark.parametrize(("eps", "rule"), [(1e-5, "N313"), (0.0, "N304")])
def test_an_epsilon_keeps_the_divisor_of_a_normalisation_from_zero(
    eps: float, rule: str
) -> None:
    """Then a faulty kernel, say, gave the NaN."""
    story = Story()
    v = story.source("input", np.ones((2, 4), f32))
    nan = f32(np.nan)
    out = story.op("normalisation", lambda v: v * nan, v, detail=(("eps", eps),))
    story.keep("loss", out)
    assert told(story.incident())[0] == rule


@pytest.mark.parametrize(
    ("came_in", "factor", "rule"), [(2e38, 3.0, "N756"), (20.0, 1e38, "N359")]
)
def test_a_state_that_came_in_large_grew_from_step_to_step(
    came_in: float, factor: float, rule: str
) -> None:
    story = Story(step=72)
    grown = story.op(
        "mul", np.multiply, story.source("buffer", f32([came_in]), "h"), factor
    )
    story.keep("loss", grown)
    story.keep("buffer", grown, "h")
    assert told(story.incident(ran("initial_parameters", "failed")))[2] == rule


def test_a_buffer_that_starts_at_infinity_may_stay_there_and_not_spread() -> None:
    def nearest(before: list[float]) -> tuple[object, ...]:
        story = Story()
        best = story.source("buffer", f32(before), "best")
        w = story.source("parameter", f32([3e38, 2]), "w")
        seen = story.op("mul", np.multiply, w, 4.0)
        story.keep("buffer", story.op("select", np.minimum, best, seen), "best")
        story.keep("loss", story.op("sum", np.sum, w))
        return diagnose(story.incident())

    assert not nearest([np.inf, np.inf])
    assert not nearest([np.inf, 3])


def test_the_nearest_of_each_class_may_be_infinite_where_none_was_seen() -> None:
    def told(reduction: str) -> list[str]:
        story = Story()
        best = story.source("buffer", f32([np.inf, np.inf, 3]), "best")
        seen = story.source("input", f32([1]))
        detail = (("reduce", reduction),)
        kept = story.op(
            "scatter", lambda *_: f32([1, np.inf, 3]), best, seen, detail=detail
        )
        story.keep("buffer", kept, "best")
        story.keep("loss", seen)
        return [f.id for f in diagnose(story.incident())]

    assert told("amin") == []
    assert told("mean") == ["N004"]


def test_an_average_that_came_in_infinite_is_harmed_though_no_more_of_it_is() -> None:
    story = Story()
    average = story.source("buffer", f32([np.inf, 3]), "average")
    kept = story.op("mul", np.multiply, average, 0.9)
    story.keep("buffer", story.op("copy_", np.copy, kept), "average")
    story.keep("loss", story.op("sum", np.sum, story.source("input", f32([1, 2]))))
    (found,) = diagnose(story.incident())
    assert (found.id, found.site.op) == ("N004", "buffer:average")


def advised(incident: Incident) -> list[str]:
    return [step.key for step in diagnose(incident)[0].help]


def test_a_logarithm_of_no_probability_is_not_to_be_taken_of_logits() -> None:
    def logarithm(family: str, function: Callable[..., Any]) -> Incident:
        story = Story()
        w = story.source("parameter", f32([0, -200]), "w")
        story.keep("loss", story.op("log", np.log, story.op(family, function, w)))
        return story.incident()

    likely = logarithm("sigmoid", lambda v: 1 / (1 + np.exp(-v)))
    assert advised(likely)[0] == "log_of_softmax"
    assert advised(logarithm("square", np.square))[0] == "clamp_argument"


def test_the_logarithm_of_an_empty_group_is_not_to_be_taken_of_logits() -> None:
    story = Story()
    w = story.source("parameter", f32([0, 1]), "w")
    members = story.op("exp", np.exp, w)
    sums = story.op("scatter", lambda v: np.append(v, f32(0)), members)
    story.keep("loss", story.op("log", np.log, sums))
    assert advised(story.incident())[0] == "clamp_argument"


def test_a_smallest_integer_has_no_absolute_value() -> None:
    story = Story()
    x = story.source("input", np.int8([-128, 3]))
    size = story.cast(story.op("", np.abs, x, op="aten.abs.default"), "float32")
    story.keep("loss", story.op("log", np.log1p, size))
    assert told(story.incident()) == ("N301", "data", "N053")


def test_a_cosine_a_rounding_beyond_one_is_told_by_how_far_it_lies_beyond() -> None:
    story = Story()
    x = story.source("parameter", np.nextafter(f32([1, 0]), f32(2)), "w")
    story.keep("loss", story.op("inverse_bounded", np.arccos, x))
    (found,) = diagnose(story.incident())
    assert dict(found.evidence[0].fields)["excess"] == pytest.approx(2.0**-23)
    assert [step.key for step in found.help] == ["clamp_inside"]


def test_a_table_that_is_too_short_is_no_matter_of_labels() -> None:
    story = Story()
    table = story.source("parameter", f32([1, 2, 3]), "embedding")
    at = story.source("input", np.array([0, 3]), "tokens")
    story.keep("loss", story.op("gather", lambda v, i: f32([v[0], np.nan]), table, at))
    assert advised(story.incident()) == ["indices_in_table"]


def test_a_scale_that_an_update_made_negative_is_to_be_kept_positive() -> None:
    story = Story(step=9)
    sigma = story.source("parameter", f32([-0.1]), "sigma")
    story.keep("loss", story.op("log", np.log, sigma))
    drifted = story.incident(ran("initial_parameters", "healthy"))
    assert told(drifted) == ("N301", "dynamics", "N751")
    assert advised(drifted)[0] == "positive_by_construction"


def test_a_singular_matrix_is_to_be_made_regular() -> None:
    story = Story()
    matrix = story.source("parameter", np.zeros((2, 2), f32), "w")
    story.keep(
        "loss", story.op("solve", lambda m: np.full_like(m, np.nan), matrix, op="solve")
    )
    assert advised(story.incident()) == ["regularise_matrix"]
