# SPDX-License-Identifier: Apache-2.0
"""Which setting let a training drift, from its scalars and from its depth."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numcheck.diagnose import diagnose, sampled
from numcheck.record import Event
from tests.core.diagnose.story import Story, ran

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numcheck.diagnose import Finding

f32 = np.float32


def scalars(**named: Iterable[float]) -> tuple[Event, ...]:
    return tuple(
        Event(name, step, value)
        for name, values in named.items()
        for step, value in enumerate(values)
    )


def drifted(*history: Event, step: int = 20, **settings: Any) -> Finding:
    """Diagnose a step that fails at these parameters and not at the first ones."""
    story = Story(step=step)
    w = story.source("parameter", f32([90.0]), "w")
    story.keep("loss", story.op("exp", np.exp, w))
    healthy = ran("initial_parameters", "healthy")
    (found,) = diagnose(story.incident(healthy, history=history, settings=settings))
    return found


def rule_of(finding: Finding) -> str:
    assert finding.cause is not None
    assert finding.cause.cls == "dynamics"
    return finding.cause.rule


RISES = [1.0, 3.0, 10.0, 30.0, 100.0]


def test_a_loss_that_no_update_lowers_is_the_learning_rate() -> None:
    found = drifted(*scalars(loss=RISES, update_ratio=[0.5], learning_rate=[0.1] * 5))
    assert rule_of(found) == "N759"
    seen = {e.key: e.fields for e in found.evidence}
    assert seen["never_fell"] == {"first": 1.0, "last": 100.0, "steps": 4}
    assert seen["update_ratio"] == {"ratio": 0.5}
    assert seen["learning_rate"] == {"rate": 0.1}
    assert found.help[0].key == "smaller_learning_rate"


@pytest.mark.parametrize(
    "history",
    [
        scalars(loss=[1.0, 0.3, *RISES]),
        scalars(loss=RISES, update_ratio=[1e-3]),
        tuple(Event("loss", 50 + i, v) for i, v in enumerate(RISES)),
    ],
    ids=["it fell at first", "the updates are small", "its first steps are unknown"],
)
def test_a_loss_that_rises_otherwise_only_drifted(history: Sequence[Event]) -> None:
    assert rule_of(drifted(*history, step=60)) == "N751"


def evaluated(*losses: float) -> str:
    """Diagnose an overflow at one of the evaluations of the loss in a first step."""
    story = Story()
    w = story.source("parameter", f32([90.0]), "w")
    story.keep("loss", story.op("exp", np.exp, w))
    history = [
        Event(name, 0, value) for value in losses for name in ("loss", "gradient_norm")
    ]
    (found,) = diagnose(story.incident(history=tuple(history)))
    assert found.cause is not None
    return found.cause.cls


def test_a_step_that_evaluates_its_loss_often_drifts_within_itself() -> None:
    assert evaluated(1.0, 100.0, np.inf) == "dynamics"
    assert evaluated(np.inf) == "op-domain"
    assert evaluated(np.inf, np.inf) == "op-domain"


THROWN = [1.0, 2.0, 8.0, 5.0, 2.0, 0.5, 0.4, 0.4, 0.3, 0.3, 0.3]


def start(rates: Sequence[float], ratio: float, losses: Sequence[float]) -> Finding:
    history = scalars(loss=losses, learning_rate=rates, update_ratio=[ratio])
    return drifted(*history)


def test_a_loss_thrown_up_by_the_first_updates_lacks_a_warm_up() -> None:
    found = start([0.1] * 11, 0.5, THROWN)
    assert rule_of(found) == "N760"
    seen = {e.key: e.fields for e in found.evidence}
    assert seen["no_warm_up"]["peak"] == 8.0
    assert found.help[0].key == "warm_up"


@pytest.mark.parametrize(
    ("rates", "ratio", "losses"),
    [
        ([0.01 * (i + 1) for i in range(11)], 0.5, THROWN),
        ([0.1] * 11, 1e-3, THROWN),
        ([0.1] * 11, 0.5, [1.0 - 0.05 * i for i in range(11)]),
    ],
    ids=["it is warmed up", "the first updates are small", "the loss falls"],
)
def test_other_starts_do_not(
    rates: Sequence[float], ratio: float, losses: Sequence[float]
) -> None:
    assert rule_of(start(rates, ratio, losses)) == "N751"


CALM = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.3, 1.0, 1.1, 0.9]


def test_a_gradient_that_jumped_unclipped_is_named_with_its_step() -> None:
    found = drifted(*scalars(gradient_norm=[*CALM, 300.0]))
    assert rule_of(found) == "N761"
    (seen,) = [e for e in found.evidence if e.key == "gradient_jumped"]
    assert seen.fields == {"step": 10, "norm": 300.0, "usual": 1.0}
    assert found.help[0].key == "clip_gradients"


def test_no_clipping_is_missed_where_it_is_there_or_nothing_jumped() -> None:
    jump = scalars(gradient_norm=[*CALM, 300.0])
    assert rule_of(drifted(*jump, clip_norm=1.0)) == "N751"
    assert rule_of(drifted(*scalars(gradient_norm=CALM))) == "N751"
    grows = scalars(gradient_norm=[2.0**i for i in range(11)])
    assert rule_of(drifted(*grows)) == "N751"
    long_ago = scalars(gradient_norm=[*CALM, 300.0, *CALM])
    assert rule_of(drifted(*long_ago)) == "N751"


def stack(
    layers: int, gain: float, *, normalises: bool = False, times: float = 1.0
) -> Story:
    """Tell a stack of orthogonal layers of one gain, and a loss in proportion."""
    story = Story()
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(8, 8)))[0].astype(f32)
    h = story.source("input", rotation)
    for i in range(layers):
        w = story.source("parameter", f32(gain) * rotation, f"w{i}")
        h = story.op("matmul", np.matmul, h, w, line=i)
        if normalises and i == layers // 2:
            h = story.op("normalisation", lambda v: v, h)
    for _ in range(2):
        h = story.op("mul", np.multiply, h, f32(times))
    story.keep("loss", h)
    return story


def cause_of(story: Story) -> str:
    (found,) = diagnose(story.incident())
    assert found.cause is not None
    return found.cause.rule


def test_ordinary_layers_that_grow_over_the_depth_lack_a_normalisation() -> None:
    assert cause_of(stack(140, 1.4, times=1e20)) == "N762"


def test_weights_whose_squares_have_no_sum_are_large_all_the_same() -> None:
    def cause(*, measured: bool) -> str:
        story = Story()
        x = story.source("input", np.ones((4, 8), f32))
        w = story.source("parameter", np.full((8, 8), 3e38, f32), "w")
        if not measured:
            held = story.builder.summaries[w.index]
            unknown = dataclasses.replace(held, total=None, total_sq=None)
            story.builder.summaries[w.index] = unknown
        story.keep("loss", story.op("matmul", np.matmul, x, w))
        return cause_of(story)

    assert cause(measured=True) == cause(measured=False) == "N754"


def test_a_second_moment_that_a_stack_of_large_weights_overflows_is_their_fault() -> (
    None
):
    def of(gain: float, first: float) -> str:
        story = Story()
        w = [story.source("parameter", f32([[gain]]), f"w{i}") for i in range(8)]
        g = story.source("input", f32([[first]]))
        for weight in w:
            g = story.op("matmul", np.matmul, g, weight, phase="backward")
        story.keep("gradient", g, "w")
        moment = story.op("mul", lambda v: v * v, g, phase="optimizer")
        story.keep("state", moment, "exp_avg_sq:w")
        return cause_of(story)

    assert of(30.0, 1e10) == "N754"
    assert of(1.0, 1e25) != "N754"


def test_the_gain_of_a_kernel_counts_all_that_it_sums() -> None:
    def of(spread: float) -> str:
        story = Story()
        x = story.source("input", np.full((2, 8, 6, 6), 1e37, f32))
        kernel = np.full((4, 8, 3, 3), spread, f32)
        w = story.source("parameter", kernel, "w")
        out = np.full((2, 4, 4, 4), 1e38, f32)
        y = story.op("conv", lambda *_: out * f32(10), x, w)
        story.keep("loss", y)
        return cause_of(story)

    assert of(1.0) == "N754"  # the gain is the root of 72
    assert of(0.1) != "N754"


def test_a_stack_that_is_normalised_flat_or_shallow_does_not() -> None:
    assert cause_of(stack(140, 1.4, normalises=True, times=1e20)) != "N762"
    assert cause_of(stack(140, 1.0, times=1e20)) != "N762"
    assert cause_of(stack(5, 1.4, times=1e20)) != "N762"


def notes(story: Story, *history: Event) -> list[str]:
    found = diagnose(story.incident(audited=True, history=history))
    assert all(f.severity == "note" for f in found)
    return [f.id for f in found]


def test_a_healthy_stack_is_noted_only_near_the_end_of_its_format() -> None:
    assert notes(stack(180, 1.4)) == ["N718"]
    assert notes(stack(60, 1.4)) == []
    assert notes(stack(180, 1.4, normalises=True)) == []


def looked_up(norm: float, family: Any = "gather") -> Story:
    story = Story(step=40)
    table = story.source("parameter", np.full((4, 4), norm / 4, f32), "tokens")
    index = story.source("input", np.int32([0, 2]))
    rows = story.op(family, lambda t, i: t[i], table, index, effect="move")
    story.keep("loss", story.op("mean", np.mean, rows))
    return story


NAME = "embedding_norm tokens"


def grown(norms: Sequence[float]) -> tuple[Event, ...]:
    return tuple(Event(NAME, 10 * i, norm) for i, norm in enumerate(norms))


def test_an_embedding_that_grows_at_every_sample_is_noted_with_its_slope() -> None:
    story = looked_up(5.0)
    assert sampled(story.incident().view)[NAME] == 5.0
    history = grown([1.0, 2.0, 3.0, 4.0, 5.0])
    (found,) = diagnose(story.incident(audited=True, history=history))
    assert (found.id, found.severity) == ("N717", "note")
    assert found.site.op == "parameter:tokens"
    assert found.evidence[0].fields["per_hundred"] == pytest.approx(10.0)


@pytest.mark.parametrize(
    "norms",
    [[4.0, 4.1, 4.2, 4.3, 4.4], [1.0, 2.0, 1.5, 3.0], [1.0, 5.0], [4.0, 3.0, 2.0, 1.0]],
    ids=["little", "it wavers", "seen twice", "it shrinks"],
)
def test_other_embeddings_are_not(norms: Sequence[float]) -> None:
    assert notes(looked_up(1.0), *grown(norms)) == []


def test_a_table_that_is_multiplied_is_no_embedding() -> None:
    assert NAME not in sampled(looked_up(5.0, "add").incident().view)


def test_a_violent_start_is_noted_and_a_gentle_one_is_not() -> None:
    def of(losses: Sequence[float], rates: Sequence[float]) -> list[str]:
        history = scalars(loss=losses, learning_rate=rates, update_ratio=[0.5])
        return notes(looked_up(1.0), *history)

    thrown = [1.0, 20.0, 6.0, 2.0, 1.0]
    assert of(thrown, [0.1] * 5) == ["N719"]
    assert of(thrown, [0.02, 0.04, 0.06, 0.08, 0.1]) == []
    assert of([1.0, 1.5, 1.2, 1.0, 0.8], [0.1] * 5) == []


def test_the_size_of_an_update_is_the_norm_of_what_was_added() -> None:
    story = Story()
    w = story.source("parameter", np.full((2, 2), 3.0, f32), "w")
    g = story.source("state", np.full((2, 2), 1.5, f32), "g")
    new = story.op("add", np.subtract, w, g, detail=(("alpha", -1.0),))
    story.keep("parameter", new, "w")
    assert sampled(story.incident().view)["update_ratio"] == pytest.approx(0.5)
