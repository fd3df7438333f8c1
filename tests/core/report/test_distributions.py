# SPDX-License-Identifier: Apache-2.0
"""Which measurement of a tensor the page shows, and the ranges beside it."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest

from numcheck.measure import summarize
from numcheck.measure.summary import Summary
from numcheck.record.site import Site
from numcheck.record.trace import Trace
from numcheck.report.departed import departed
from numcheck.report.distributions import distributions, format_ranges
from tests.core.report import fixture

ORACLES = {
    "float16": np.finfo(np.float16),
    "bfloat16": ml_dtypes.finfo(ml_dtypes.bfloat16),
    "float8_e4m3fn": ml_dtypes.finfo(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ml_dtypes.finfo(ml_dtypes.float8_e5m2),
}


@pytest.mark.parametrize("row", format_ranges(), ids=lambda row: row["name"])
def test_ranges_are_those_of_numpy_and_ml_dtypes(row: dict[str, float]) -> None:
    known = ORACLES[str(row["name"])]
    assert row["max"] == float(known.max)
    assert 2.0 ** row["emin"] == float(known.smallest_normal)
    assert 2.0 ** row["lowest"] == float(known.smallest_subnormal)
    assert 2.0 ** row["emax"] <= row["max"] < 2.0 ** (row["emax"] + 1)


def measured(step: int, *, histogram: bool) -> Summary:
    """Returns a summary that can be told by its count."""
    return Summary(n=step, exponents={-1: step, 2: 1} if histogram else None)


def chosen(*histograms: bool, failing: int | None = None) -> dict[str, object]:
    """Returns what is shown of one site measured once a step."""
    summaries = {
        (i, 0): {0: measured(i, histogram=h)} for i, h in enumerate(histograms)
    }
    trace = Trace((Site(0, "mul", "forward"),), summaries)
    findings = []
    if failing is not None:
        findings.append(dataclasses.replace(fixture.overflow(), step=failing, rank=0))
    found = distributions(trace, findings)[0]
    return {"step": found["step"], "counts": found.get("counts")}


def test_the_latest_measurement_is_shown() -> None:
    assert chosen(True, True, True) == {"step": 2, "counts": [2, 0, 0, 1]}
    assert chosen(False, False) == {"step": 1, "counts": None}


def test_a_histogram_is_preferred_to_a_later_step_without() -> None:
    assert chosen(True, True, False)["step"] == 1


def test_the_failing_step_is_preferred_to_a_later_one() -> None:
    assert chosen(True, True, True, failing=1)["step"] == 1


def test_departures_are_ranked_in_roundings_of_their_own_format() -> None:
    sites = tuple(
        Site(i, "mul", "forward", dtype=("bfloat16", "float32")[i % 2])
        for i in range(50)
    )
    rows = departed(Trace(sites, {}), dict.fromkeys(range(50), 2.0**-9))
    assert [row.dtype for row in rows] == ["float32"] * 20
    assert rows[0].roundings == "3.277e+04"  # 2**-9 / 2**-24
    assert [row.index for row in rows] == sorted(row.index for row in rows)


def test_departures_that_are_not_finite_come_first_and_keep_their_name() -> None:
    sites = tuple(Site(i, "mul", "forward", dtype="float16") for i in range(40))
    errors = dict.fromkeys(range(40), 0.5) | {39: float("nan"), 38: float("inf")}
    rows = departed(Trace(sites, {}), errors)
    assert [(r.index, r.error) for r in rows[-2:]] == [(38, "Inf"), (39, "NaN")]


def test_mean_and_spread_are_those_of_the_finite_elements() -> None:
    values = np.array([1.0, 2.0, 5.0, np.nan, np.inf], np.float32)
    site = Site(0, "x", "forward", dtype="float32")
    trace = Trace((site,), {(0, 0): {0: summarize(values)}})
    row = distributions(trace, [])[0]
    finite = values[np.isfinite(values)].astype(np.float64)
    assert row["mean"] == pytest.approx(float(finite.mean()))
    assert row["std"] == pytest.approx(float(finite.std()))
