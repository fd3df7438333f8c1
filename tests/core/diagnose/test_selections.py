# SPDX-License-Identifier: Apache-2.0
"""A selection takes its NaN from one of its cases, not from all that hold some."""

from __future__ import annotations

import numpy as np
import pytest

from numcheck.diagnose import diagnose
from numcheck.record import Event
from tests.core.diagnose.story import Story

f32 = np.float32


@pytest.mark.parametrize(("spared", "op"), [("1", "div"), ("", "input:x")])
def test_what_a_selection_left_is_not_the_origin_of_what_it_took(
    spared: str, op: str
) -> None:
    story = Story()
    x = story.source("input", f32([[np.nan, 1], [np.nan, 2]]))
    known = story.op("sum", lambda v: np.isfinite(v).sum(0).astype(f32), x)
    total = story.op("sum", lambda v: np.nansum(v, 0), x)
    mean = story.op("div", np.divide, total, known)
    detail = (("spared", spared),) if spared else ()
    filled = story.op(
        "select",
        lambda m, v: np.where(np.isnan(v), m, v),
        mean,
        x,
        effect="move",
        detail=detail,
    )
    story.keep("loss", filled)
    assert diagnose(story.incident())[0].site.op == op


@pytest.mark.parametrize(("reads", "told"), [(False, ["N304"]), (True, [])])
def test_nan_returned_beside_a_finite_training_is_told_unless_training_reads_it(
    *, reads: bool, told: list[str]
) -> None:
    story = Story()
    w = story.source("parameter", f32([1, 2]), "w")
    flags = story.op("cast", lambda: f32([0, 0]), effect="cast")
    count = story.op("sum", np.sum, flags)
    hits = story.op("sum", np.sum, flags)
    metric = story.op("div", np.divide, hits, count)
    loss = story.op("sum", np.sum, w)
    if reads:
        loss = story.op("select", lambda a, _: a, loss, metric, effect="move")
    story.keep("loss", loss)
    story.keep("gradient", w, "w")
    story.keep("output", metric, "accuracy")
    found = [f for f in diagnose(story.incident()) if f.severity != "note"]
    assert [f.id for f in found] == told
    assert all(f.severity == "warning" for f in found)


@pytest.mark.parametrize("role", ["operator", "constant"])
def test_nan_that_the_program_wrote_for_no_examples_may_be_returned(
    role: str,
) -> None:
    story = Story()
    w = story.source("parameter", f32([1, 2]), "w")
    none = story.op("sum", np.sum, story.op("fill", lambda: f32([0, 0])))
    ratio = story.op("div", np.divide, none, none)
    if role == "constant":
        nan = story.source("constant", f32(np.nan))
    else:
        nan = story.op("fill", lambda n: n, f32(np.nan), effect="fill")
    metric = story.op("select", lambda _, n: n, ratio, nan, effect="move")
    story.keep("loss", story.op("sum", np.sum, w))
    story.keep("gradient", w, "w")
    story.keep("output", metric, "accuracy")
    assert [f for f in diagnose(story.incident()) if f.severity != "note"] == []


def test_nan_beside_the_training_hides_no_growth_of_its_loss() -> None:
    story = Story(step=10)
    w = story.source("parameter", f32([1, 2]), "w")
    none = story.op("sum", np.sum, story.op("cast", lambda: f32([0, 0]), effect="cast"))
    story.keep("loss", story.op("sum", np.sum, w))
    story.keep("gradient", w, "w")
    story.keep("output", story.op("div", np.divide, none, none), "accuracy")
    history = tuple(Event("loss", i, 3.0**i) for i in range(10))
    found = diagnose(story.incident(history=history))
    assert [f.id for f in found if f.severity == "warning"] == ["N711", "N304"]
