# SPDX-License-Identifier: Apache-2.0
"""The headroom map: absolute colours, the worst of what shares a cell."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.measure.summary import Summary
from numcheck.record.site import Site
from numcheck.record.trace import Trace
from numcheck.report.colour import (
    INF_CODE,
    NAN_CODE,
    STOPS,
    UNMEASURED_CODE,
    ZERO_CODE,
    code_of,
    colour_of_code,
)
from numcheck.report.heatmap import heatmap

if TYPE_CHECKING:
    from numcheck.report.heatmap import Heatmap


def held(amax: float | None, **counts: int) -> Summary:
    """Returns a summary of ten elements."""
    full = {"nan": 0, "pos_inf": 0, "neg_inf": 0, **counts}
    return Summary(n=10, amax=amax, **full)


def run(rows: int, steps: int, **changed: Summary) -> Trace:
    """Returns a trace of float16 sites, all at 1.0 but `SITE_STEP` as given."""
    sites = tuple(Site(i, "mul", "forward", dtype="float16") for i in range(rows))
    summaries = {(s, 0): dict.fromkeys(range(rows), held(1.0)) for s in range(steps)}
    for name, summary in changed.items():
        site, step = map(int, name.strip("_").split("_"))
        summaries[step, 0][site] = summary
    return Trace(sites, summaries)


def cells(drawn: Heatmap) -> np.ndarray[Any, Any]:
    """Returns the map's codes as an array, rows by columns."""
    flat = np.frombuffer(base64.b64decode(drawn.cells), np.int8)
    return flat.reshape(len(drawn.rows), len(drawn.steps))


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        (None, UNMEASURED_CODE),
        (held(None), UNMEASURED_CODE),
        (held(0.0), ZERO_CODE),
        (held(1.0, nan=1), NAN_CODE),
        (held(1.0, nan=1, pos_inf=1), NAN_CODE),
        (held(1.0, neg_inf=1), INF_CODE),
        (Summary(n=2, low=math.nan, high=math.nan), NAN_CODE),
        (Summary(n=2, low=0.0, high=math.inf), INF_CODE),
        (held(65504.0), 0),
        (held(16376.0), 8),
        (held(5e-324), 125),
        (held(65536.0), -1),
    ],
)
def test_code_is_a_quarter_of_a_bit_or_what_is_not_finite(
    summary: Summary | None, code: int
) -> None:
    assert code_of(summary, "float16") == code


@pytest.mark.parametrize("dtype", ["int64", "bool", "", "nonsense"])
def test_values_without_a_floating_format_have_no_headroom(dtype: str) -> None:
    assert code_of(held(3.0), dtype) == UNMEASURED_CODE


def test_the_worse_the_smaller() -> None:
    codes = [
        code_of(s, "float16")
        for s in (held(1.0, nan=1), held(1.0, pos_inf=1), held(1e6), held(9e4),
                  held(6e4), held(1.0), held(1e-9), held(0.0), None)
    ]  # fmt: skip
    assert codes == sorted(codes)


@pytest.mark.parametrize(("bits", "rgb"), STOPS)
def test_colour_at_a_stop_is_the_stop_s(bits: float, rgb: tuple[int, ...]) -> None:
    assert colour_of_code(int(4 * bits)) == f"rgb({rgb[0]} {rgb[1]} {rgb[2]})"


def test_colour_depends_on_the_bits_alone() -> None:
    quiet, loud = heatmap(run(2, 2)), heatmap(run(2, 2, _0_1=held(6e4)))
    assert cells(quiet)[1, 1] == cells(loud)[1, 1]


def test_one_bad_cell_survives_any_thinning() -> None:
    trace = run(4, 1000, _2_777=held(1.0, nan=1), _3_5=held(60000.0))
    drawn = heatmap(trace, most_cells=40)
    assert drawn.steps_in_column == 100
    assert len(drawn.steps) == 10
    assert (
        cells(drawn)[2].tolist()
        == [cells(drawn)[0, 0]] * 7 + [NAN_CODE] + [cells(drawn)[0, 0]] * 2
    )
    assert cells(drawn)[3, 0] == code_of(held(60000.0), "float16")


def test_map_that_fits_is_not_thinned() -> None:
    drawn = heatmap(run(3, 7))
    assert drawn.steps_in_column == 1
    assert list(drawn.steps) == list(range(7))
    assert drawn.left_out == 0


def test_ranks_share_a_cell_and_the_worst_is_shown() -> None:
    sites = (Site(0, "mul", "forward", dtype="float16"),)
    healthy, broken = {0: held(1.0)}, {0: held(1.0, pos_inf=2)}
    trace = Trace(sites, {(0, 0): healthy, (0, 1): broken, (1, 0): healthy})
    assert cells(heatmap(trace)).tolist() == [[INF_CODE, code_of(held(1.0), "float16")]]


def test_sites_that_were_never_measured_have_no_row() -> None:
    sites = tuple(Site(i, "mul", "forward", dtype="float16") for i in range(3))
    drawn = heatmap(Trace(sites, {(0, 0): {1: held(1.0)}}))
    assert list(drawn.rows) == [1]


def test_of_too_many_sites_the_kept_values_stay_and_the_rest_is_counted() -> None:
    sites = tuple(
        Site(i, "mul", "forward", "kept" if i == 8999 else "operator", dtype="float16")
        for i in range(9000)
    )
    trace = Trace(sites, {(0, 0): dict.fromkeys(range(9000), held(1.0))})
    drawn = heatmap(trace)
    assert len(drawn.rows) <= 4000
    assert drawn.rows[-1] == 8999
    assert drawn.left_out == 9000 - len(drawn.rows)


def test_empty_trace_gives_an_empty_map() -> None:
    drawn = heatmap(Trace((), {}))
    assert (list(drawn.rows), list(drawn.steps), drawn.cells) == ([], [], "")


def test_progress_counts_every_recorded_step() -> None:
    seen: list[tuple[int, int]] = []
    heatmap(run(2, 5), lambda done, total: seen.append((done, total)))
    assert seen == [(i, 5) for i in range(1, 6)]


@given(st.floats(1e-30, 1e38), st.sampled_from(["float16", "bfloat16", "float32"]))
def test_quick_and_plain_coding_agree(amax: float, dtype: str) -> None:
    sites = (Site(0, "mul", "forward", dtype=dtype),)
    drawn = cells(heatmap(Trace(sites, {(0, 0): {0: held(amax)}})))
    assert drawn.tolist() == [[code_of(held(amax), dtype)]]
