# SPDX-License-Identifier: Apache-2.0
"""Steps of a run are put together by what their sites are."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from numcheck.measure.summary import Summary
from numcheck.record import Site, TraceBuilder
from numcheck.record.history import TraceHistory

if TYPE_CHECKING:
    from numcheck.record import Trace


def step_of(step: int, ops: list[str]) -> Trace:
    builder = TraceBuilder(step)
    for position, op in enumerate(ops):
        parents = (position - 1,) if position else ()
        builder.add(Site(0, op, "forward", parents=parents), Summary(n=position))
    return builder.build()


def test_nothing_recorded_is_no_trace() -> None:
    assert TraceHistory().trace is None


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=1, max_size=5))
def test_every_summary_is_found_again_at_a_site_of_its_operator(
    program: list[list[str]],
) -> None:
    history = TraceHistory()
    for step, ops in enumerate(program):
        history.add(step_of(step, ops))
    trace = history.trace
    assert trace is not None
    assert [s.index for s in trace.sites] == list(range(len(trace.sites)))
    for step, ops in enumerate(program):
        held = trace.at(step).summaries
        assert {s.n: trace.sites[i].op for i, s in held.items()} == dict(enumerate(ops))


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6))
def test_a_repeated_step_adds_no_site(ops: list[str]) -> None:
    history = TraceHistory()
    history.add(step_of(0, ops))
    before = tuple(history.sites)
    history.add(step_of(1, ops))
    assert tuple(history.sites) == before


def test_an_inserted_operator_moves_no_other() -> None:
    history = TraceHistory()
    history.add(step_of(0, ["a", "b", "c"]))
    places = history.add(step_of(1, ["a", "x", "b", "c"]))
    assert places == [0, 3, 1, 2]


def test_a_cheap_look_and_a_full_one_at_a_step_complete_each_other() -> None:
    history = TraceHistory()
    for summary in (Summary(n=3, nan=1, total=2.5), Summary(n=3, amax=2.0)):
        builder = TraceBuilder(0)
        builder.add(Site(0, "a", "forward"), summary)
        history.add(builder.build())
    trace = history.trace
    assert trace is not None
    assert trace.at(0).summary(0) == Summary(n=3, nan=1, total=2.5, amax=2.0)


def measured_step(step: int, values: list[float]) -> Trace:
    builder = TraceBuilder(step)
    for value in values:
        builder.add(Site(0, "a", "forward"), Summary(n=1, low=value, high=value))
    return builder.build()


@given(
    st.lists(st.floats(), min_size=1, max_size=60),
    st.integers(10, 40),
    st.integers(1, 4),
)
def test_a_bounded_history_holds_the_latest_steps_and_counts_the_others(
    values: list[float], most: int, width: int
) -> None:
    history = TraceHistory(most)
    for step, value in enumerate(values):
        history.add(measured_step(step, [value] * width))
    trace = history.trace
    assert trace is not None
    held = trace.steps
    assert len(held) * width <= most + 3 * width
    assert held[-1] == len(values) - 1
    assert (history.recorded or len(held)) == len(values)


def test_a_bounded_history_keeps_the_steps_that_broke() -> None:
    history = TraceHistory(most=100)
    for step in range(1000):
        history.add(measured_step(step, [math.nan if step == 300 else 1.0]))
    trace = history.trace
    assert trace is not None
    assert 300 in trace.steps
    recent = [step for step in trace.steps if step >= 900]
    past = [step for step in trace.steps if step < 500]
    assert len(recent) > len(past) > 5
    assert max(b - a for a, b in itertools.pairwise(trace.steps)) < 120
