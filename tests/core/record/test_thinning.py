# SPDX-License-Identifier: Apache-2.0
"""Of a long run some steps are read, and never without those that went wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numcheck.measure.summary import Summary
from numcheck.record import RunWriter, Site, open_run
from numcheck.record import rows as binary
from numcheck.report import past_run
from numcheck.report.past_run import content_of_run

if TYPE_CHECKING:
    from pathlib import Path

SITES = tuple(Site(i, f"op{i}", "forward", dtype="float16") for i in range(4))
FINE = Summary(n=8, nan=0, pos_inf=0, neg_inf=0, amax=1.0)
TIGHT = Summary(n=8, nan=0, pos_inf=0, neg_inf=0, amax=60000.0)
NAN = Summary(n=8, nan=1, pos_inf=0, neg_inf=0, amax=1.0)
UNCOUNTED = Summary(n=8, low=math.nan, high=math.nan)
MASK = Summary(n=8, nan=0, pos_inf=0, neg_inf=4, amax=1.0)


def written(folder: Path, odd: dict[int, Summary], steps: int = 100) -> Path:
    """Returns a run whose site 2 held something odd at some steps."""
    writer = RunWriter(folder)
    writer.trace.sites(SITES)
    for step in range(steps):
        held = dict.fromkeys(range(3), FINE) | {3: MASK}
        writer.trace.step(step, held | {2: odd.get(step, FINE)})
    return folder


def test_a_run_that_fits_is_read_whole(tmp_path: Path) -> None:
    run = open_run(written(tmp_path, {}), most=400)
    assert run.recorded is None
    assert run.trace.steps == tuple(range(100))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 99), st.sampled_from([TIGHT, NAN, UNCOUNTED]))
def test_the_one_step_that_went_wrong_is_read(
    tmp_path_factory: pytest.TempPathFactory, step: int, odd: Summary
) -> None:
    folder = written(tmp_path_factory.mktemp("run"), {step: odd})
    run = open_run(folder, most=40)
    assert run.recorded == 100
    assert {0, step, 99} <= set(run.trace.steps)
    assert len(run.trace.steps) <= 12
    assert repr(run.trace.at(step).summary(2)) == repr(odd)


def test_ranks_are_read_at_the_same_steps(tmp_path: Path) -> None:
    for rank, bad in ((0, 11), (1, 57)):
        writer = RunWriter(tmp_path, rank=rank)
        writer.trace.sites(SITES)
        for step in range(100):
            writer.trace.step(step, {2: TIGHT if step == bad else FINE})
    run = open_run(tmp_path, most=20)
    by_rank = [{s for s, r in run.trace.summaries if r == rank} for rank in (0, 1)]
    assert by_rank[0] == by_rank[1]
    assert {11, 57} <= by_rank[0]


def test_records_without_a_site_or_torn_are_left_out(tmp_path: Path) -> None:
    folder = written(tmp_path, {50: NAN})
    path = next(folder.rglob("summaries-*.bin"))
    stranger = binary.pack(7, {99: NAN, -3: NAN}).tobytes()
    path.write_bytes(stranger + path.read_bytes() + b"torn")
    run = open_run(folder, most=40)
    assert 50 in run.trace.steps
    assert all(set(held) <= {0, 1, 2, 3} for held in run.trace.summaries.values())
    assert len(run.notes) == 2


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        ("en", "of its 100 recorded steps 11 were read"),
        ("zh", "100 个记录步中读取了 11 个"),
    ],
)
def test_the_report_says_that_steps_were_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: str, said: str
) -> None:
    monkeypatch.setattr(past_run, "_MOST_SUMMARIES", 40)
    content = content_of_run(written(tmp_path, {}))
    assert any(said in line for line in content.coverage.unseen(lang))
