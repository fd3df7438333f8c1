# SPDX-License-Identifier: Apache-2.0
"""The picture puts every binade and every range in its column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.calculator._picture import picture
from numcheck.formats import get, names

FORMATS = [get("fp16"), get("bf16"), get("e4m3")]
counts = st.dictionaries(
    st.integers(-1074, 1023), st.integers(1, 1 << 40), min_size=1, max_size=30
)


def test_one_binade_a_column_where_there_is_room() -> None:
    drawn = picture({0: 1, 1: 100, 5: 1}, [get("e2m1")], 60, unicode=False)
    ticks, bars, ranges = drawn.splitlines()
    zero = ticks.index("2^0")
    assert bars[zero] == bars[zero + 5] == "."
    assert bars[zero + 1] == "@"
    assert bars[zero + 2 : zero + 5] == "   "
    # Subnormal from 2^-1, normal up to 4 and 6.
    assert ranges[zero - 2 : zero + 4] == " .===" + ""
    assert ranges[zero - 1] == "."


@given(counts, st.integers(30, 200), st.booleans())
def test_lines_keep_to_the_width_and_every_binade_is_seen(
    binades: dict[int, int], width: int, unicode: bool
) -> None:
    lines = picture(binades, FORMATS, width, unicode=unicode).splitlines()
    assert len(lines) == 2 + len(FORMATS)
    assert all(len(line) <= width + 5 for line in lines)
    assert lines[1].strip()


@pytest.mark.parametrize("name", names())
def test_every_format_can_be_drawn(name: str) -> None:
    fmt = get(name)
    low, high = fmt.emin, fmt.emax
    line = picture({low: 1, high: 1}, [fmt], 120).splitlines()[2]
    assert "━" in line


def test_nothing_to_draw_is_drawn() -> None:
    assert picture({}, []).strip()
