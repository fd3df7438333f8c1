# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.diagnose.bisection import carrying_rows
from numcheck.diagnose.laboratory import CannotRunError


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
