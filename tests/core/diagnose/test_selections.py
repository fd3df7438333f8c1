# SPDX-License-Identifier: Apache-2.0
"""A selection takes its NaN from one of its cases, not from all that hold some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numcheck.diagnose import diagnose
from numcheck.record import Event
from tests.core.diagnose.story import Story, only, told

if TYPE_CHECKING:
    from numcheck.diagnose import Incident

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


def test_a_selection_before_the_derivative_is_the_where_trap() -> None:
    story = Story()
    w = story.source("parameter", f32([0, 1]), "w")
    log = story.op("log", np.log, w)
    ok = story.source("constant", np.array([False, True]), "ok")
    story.keep("loss", story.op("select", lambda m, v: np.where(m, v, f32(0)), ok, log))
    grad = story.op(
        "select", lambda m: np.where(m, f32(1), f32(0)), ok, phase="backward"
    )
    slope = story.op("div", np.divide, grad, w, phase="backward")
    story.keep("gradient", slope, "w")
    found = only(story.incident())
    assert (found.id, found.cause and found.cause.rule) == ("N309", "N352")
    assert [s.op for s in found.masked] == ["log"]


def unselected_root(selects: bool) -> Incident:
    """Return a root of a negative number whose NaN reaches the gradient alone."""
    story = Story()
    w = story.source("parameter", f32([-1, 1]), "w")
    root = story.op("sqrt", np.sqrt, w)
    ok = story.source("constant", np.array([False, True]), "ok")
    if selects:
        loss = story.op("select", lambda m, v: np.where(m, v, f32(0)), ok, root)
    else:
        loss = story.op("sum", np.nansum, root)
    story.keep("loss", loss)
    grad = story.op(
        "select", lambda m: np.where(m, f32(1), f32(0)), ok, phase="backward"
    )
    slope = story.op("div", np.divide, grad, root, phase="backward")
    story.keep("gradient", slope, "w")
    return story.incident()


def test_a_nan_that_a_selection_drops_forward_is_the_where_trap() -> None:
    found = only(unselected_root(selects=True))
    assert (found.id, found.cause and found.cause.rule) == ("N302", "N352")
    assert [advice.key for advice in found.help] == ["safe_where"]
    assert told(unselected_root(selects=False))[2] == "N351"


@pytest.mark.parametrize("family", ["select", "threshold"])
def test_a_slope_computed_ahead_meets_the_gradient_of_a_selection(
    family: Any,
) -> None:
    story = Story()
    w = story.source("parameter", f32([0, 1]), "w")
    root = story.op("sqrt", np.sqrt, w)
    ok = story.source("constant", np.array([False, True]), "ok")
    story.keep(
        "loss", story.op("select", lambda m, v: np.where(m, v, f32(0)), ok, root)
    )
    slope = story.op("div", np.divide, 0.5, root, phase="backward")
    into = "select" if family == "select" else "mul"
    grad = story.op(into, lambda m: np.where(m, f32(1), f32(0)), ok, phase="backward")
    story.keep(
        "gradient", story.op("mul", np.multiply, grad, slope, phase="backward"), "w"
    )
    expected = "N352" if family == "select" else "N354"
    assert told(story.incident()) == ("N309", "op-domain", expected)
