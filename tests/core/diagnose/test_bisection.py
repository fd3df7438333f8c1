# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.diagnose.bisection import carrying_rows
from numcheck.diagnose.laboratory import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Sequence


@given(st.integers(2, 40), st.data())
def test_one_to_three_bad_samples_are_all_named(
    total: int, data: st.DataObject
) -> None:
    bad = data.draw(
        st.sets(st.integers(0, total - 1), min_size=1, max_size=min(3, total - 1))
    )
    found = carrying_rows(total, lambda rows: not bad.isdisjoint(rows))
    assert (set(found.rows), found.heals) == (bad, True)


@given(st.integers(2, 40))
def test_a_failure_of_every_sample_is_no_failure_of_a_few(total: int) -> None:
    assert not carrying_rows(max(total, 6), lambda rows: len(rows) > 0).heals


@given(st.integers(4, 40))
def test_a_failure_that_needs_many_samples_names_none(total: int) -> None:
    found = carrying_rows(total, lambda rows: len(rows) > total // 2)
    assert (found.rows, found.heals) == ((), False)


def test_running_out_of_time_is_no_answer() -> None:
    with pytest.raises(CannotRunError):
        carrying_rows(8, lambda rows: True, has_time=lambda: False)


@given(st.integers(8, 40), st.data())
def test_samples_that_fail_only_together_are_named_together(
    total: int, data: st.DataObject
) -> None:
    size = data.draw(st.integers(2, 4))
    group = data.draw(st.sets(st.integers(0, total - 1), min_size=size, max_size=size))
    found = carrying_rows(total, group.issubset)
    assert (set(found.rows), found.heals, found.together) == (group, True, True)


def test_a_score_of_one_sample_against_another_needs_both_of_them() -> None:
    x = np.eye(12, dtype=np.float32)
    key = x.copy()
    key[8, 3] = 95.0  # only the score [3, 8] is beyond exp's range

    def fails(rows: Sequence[int]) -> bool:
        with np.errstate(over="ignore"):
            at = list(rows)
            return not np.isfinite(np.exp(x[at] @ key[at].T)).all()

    assert fails(range(12))
    assert not any(fails([i for i in range(12) if i != row]) for row in (3, 8))
    found = carrying_rows(12, fails)
    assert (found.rows, found.heals, found.together) == ((3, 8), True, True)
