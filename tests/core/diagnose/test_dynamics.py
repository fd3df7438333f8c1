# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from numcheck.diagnose import diagnose, tightest
from numcheck.diagnose.line import fitted
from numcheck.record import Event
from tests.core.diagnose.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.diagnose import Finding


def after(name: str, values: Iterable[float], every: int = 1) -> tuple[Finding, ...]:
    """Diagnose a healthy step after a history of one scalar."""
    events = tuple(Event(name, i * every, v) for i, v in enumerate(values))
    story = Story(step=events[-1].step + 1)
    story.keep("loss", story.source("constant", np.float32(1.0)))
    return diagnose(story.incident(history=events))


def test_a_loss_that_multiplies_at_every_step_is_a_warning() -> None:
    (found,) = after("loss", [3.0**i for i in range(10)])
    assert (found.id, found.severity) == ("N711", "warning")


@pytest.mark.parametrize(
    "values",
    [
        [1.0] * 10 + [1e6],
        [1.01**i for i in range(60)],
        [3.0 ** (i if i != 7 else 0) for i in range(10)],
        [3.0**-i for i in range(10)],
        [1e-3, *(-(2.0**i) for i in range(9))],
        [10 * (1 - 0.9**i) for i in range(10)],
        [1e-9 + 0.01 * i for i in range(10)],
    ],
    ids=[
        "a spike",
        "a slow rise",
        "a fall between",
        "a fall",
        "a pass through zero",
        "a state that fills up",
        "a rise from nothing",
    ],
)
def test_what_does_not_multiply_at_every_step_is_none(values: list[float]) -> None:
    assert after("loss", values) == ()


def test_a_loss_scale_spiral_is_told_apart_from_the_search_for_a_scale() -> None:
    assert after("loss_scale", [2.0**-i for i in range(-24, -9)]) == ()
    (found,) = after("loss_scale", [2.0**-i for i in range(-8, 4)])
    assert (found.id, found.cause and found.cause.rule) == ("N712", "N752")


def test_a_steady_drift_is_announced_long_before_it_overflows() -> None:
    """A float16 activation that doubles every 50 steps, sampled every 10."""
    story_of = {}
    for step in range(0, 800, 10):
        story = Story(step=step)
        x = story.source("input", np.float16([2.0 ** (step / 50)]))
        story.keep("loss", story.op("mul", np.multiply, x, x, op="attention"))
        story_of[step] = story
    events: list[Event] = []
    for step, story in story_of.items():
        view = story.incident().view
        if not np.isfinite(view.summary(1).low):
            pytest.fail("it overflowed without a warning")
        events += [Event(n, step, v) for n, v in tightest(view).items()]
        found = diagnose(story.incident(history=tuple(events)))
        if found:
            break
    assert (found[0].id, found[0].severity) == ("N713", "warning")
    overflow = 400  # 2**(2 * 400 / 50) = 65536
    assert found[0].step <= overflow - 20
    assert found[0].fields["step"] == pytest.approx(overflow, abs=15)


def test_a_headroom_that_only_wavers_is_no_drift() -> None:
    rng = np.random.default_rng(0)
    values = 2.0 + rng.normal(0, 0.3, 40)
    assert after("headroom forward mul 1", values.tolist(), every=10) == ()


def test_the_line_is_the_least_squares_line() -> None:
    rng = np.random.default_rng(0)
    steps = np.arange(20)
    values = 3 - 0.5 * steps + rng.normal(0, 0.1, 20)
    line = fitted(list(zip(steps.tolist(), values.tolist(), strict=True)))
    assert line is not None
    assert line.slope == pytest.approx(np.polyfit(steps, values, 1)[0])
    assert line.explained == pytest.approx(np.corrcoef(steps, values)[0, 1] ** 2)
