# SPDX-License-Identifier: Apache-2.0
"""Summaries in columns are, one by one, those that were put there."""

from __future__ import annotations

import dataclasses
import math
import pickle

import numpy as np
import pytest

from numcheck.measure.summary import Summary
from numcheck.record import Site, Trace
from numcheck.record.columns import UNKNOWN, UNSUMMED, SummaryColumns, of_extremes
from numcheck.record.history import TraceHistory
from numcheck.record.thinning import danger_of

CELLS = [
    [-1.0, 3.0, UNSUMMED, UNSUMMED],
    [math.nan, math.nan, 2.0, 4.0],
    [-math.inf, 5.0, UNSUMMED, UNSUMMED],
    [0.0, 0.0, 1.0, UNKNOWN],
    [1.0, 3.0, 4.0, UNKNOWN],
    [-65000.0, 1.0, UNSUMMED, UNSUMMED],
]
EXPECTED = {
    1: Summary(n=2, low=-1.0, high=3.0, amax=3.0),
    2: Summary(n=3, low=math.nan, high=math.nan),
    4: Summary(n=4, low=-math.inf, high=5.0),
    5: Summary(
        n=5, nan=0, pos_inf=0, neg_inf=0, low=0.0, high=0.0, amax=0.0,
        total=0.0, total_sq=0.0,
    ),
    6: Summary(
        n=6, nan=0, pos_inf=0, neg_inf=0, low=1.0, high=3.0, amax=3.0, total=4.0
    ),
    7: Summary(n=7, low=-65000.0, high=1.0, amax=65000.0),
    8: Summary(n=2, low=-1.0, high=3.0, amax=3.0),
    9: Summary(n=9),
}  # fmt: skip


def columns() -> SummaryColumns:
    rows = {1: 0, 2: 1, 4: 2, 5: 3, 6: 4, 7: 5, 8: 0}
    sizes = [2, 3, 4, 5, 6, 7]
    return SummaryColumns(rows, sizes, np.array(CELLS), {9: Summary(n=9)})


def sites() -> tuple[Site, ...]:
    return tuple(Site(i, f"op{i}", "forward", dtype="float16") for i in range(10))


def test_they_read_as_the_dictionary_they_stand_for() -> None:
    # By their text, in which NaN equals NaN.
    assert repr(columns()) == repr(EXPECTED)
    assert len(columns()) == len(EXPECTED)
    assert 3 not in columns()
    assert columns().get(3) is None
    assert [s.n for s in columns().values()] == [s.n for s in EXPECTED.values()]


def test_a_summary_put_there_replaces_what_was_recorded_in_its_copy_alone() -> None:
    held = columns()
    other = held.copy()
    other[1] = Summary(n=77)
    assert (held[1].n, other[1].n, len(other)) == (2, 77, len(held))


def test_what_was_recorded_cannot_be_taken_away() -> None:
    with pytest.raises(TypeError):
        del columns()[1]


def test_they_survive_being_pickled() -> None:
    assert repr(pickle.loads(pickle.dumps(columns()))) == repr(EXPECTED)


def test_a_step_of_columns_is_as_dangerous_as_one_of_summaries() -> None:
    assert danger_of(sites(), columns()) == danger_of(sites(), EXPECTED)
    healthy = SummaryColumns({1: 0}, [2], np.array(CELLS[:1]))
    assert danger_of(sites(), healthy) == danger_of(sites(), {1: EXPECTED[1]})


def test_a_history_holds_steps_of_both_kinds_under_the_same_sites() -> None:
    history = TraceHistory()
    first = tuple(dataclasses.replace(s, index=9 - s.index) for s in reversed(sites()))
    history.add(Trace(first, {(0, 0): {0: Summary(n=1)}}))
    for step in (1, 2):
        history.add(Trace(sites(), {(step, 0): columns()}))
    trace = history.trace
    assert trace is not None
    for step in (1, 2):
        by_name = {trace.sites[i].op: s for i, s in trace.summaries[step, 0].items()}
        assert repr(by_name["op6"]) == repr(EXPECTED[6])
        assert by_name.keys() == {f"op{i}" for i in EXPECTED}


def test_a_step_recorded_cheaply_and_again_in_full_has_both() -> None:
    history = TraceHistory()
    history.add(Trace(sites(), {(0, 0): columns()}))
    history.add(Trace(sites(), {(0, 0): {1: Summary(n=2, low=-1.0, zero=1)}}))
    trace = history.trace
    assert trace is not None
    found = trace.summaries[0, 0][1]
    assert (found.zero, found.high, found.amax) == (1, 3.0, 3.0)
    assert trace.summaries[0, 0][7] == EXPECTED[7]


def test_of_values_that_are_not_finite_no_sums_are_known() -> None:
    assert of_extremes(3, 1.0, math.inf, 5.0, 7.0).total is None
