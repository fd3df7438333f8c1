# SPDX-License-Identifier: Apache-2.0
"""Two processes that train one model: same results, one stop, one rank named.

All scenarios run one after the other in the same two processes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch import distributed

from numcheck.record.run_folder import open_run
from numcheck.report.past_run import content_of_run

WORKER = Path(__file__).with_name("worker.py")
ROOT_FOLDER = WORKER.parents[3]
WORLD = 2
BAD_STEP = 2
BOTH = [0, 1]
Said = dict[str, list[dict[str, Any]]]

LOG = ["aten.log.default", "forward"]
ROOT = ["aten.div.Tensor", "backward"]
UPDATE = ["aten.addcdiv_.default", "optimizer"]
BATCH = ["input:input", "data"]
CAST = ["aten._to_copy.default", "backward"]

QUICK = {"experiments": False}
TRACED = {"level": "trace", **QUICK}
ASKED = ("sharded, backward", "sharded, cast", "synchronised, loss")
"""Scenarios whose experiments are looked at."""

ALONE: dict[str, tuple[dict[str, Any], list[str]]] = {
    "plain, loss": ({"fault": "loss"}, LOG),
    "plain, thrown away": ({"fault": "loss", "skips": True}, LOG),
    "compressed": ({"model": "compressed", "fault": "large"}, CAST),
    "synchronised, batch": ({"model": "synchronised", "fault": "forward"}, BATCH),
    "synchronised, loss": ({"model": "synchronised", "fault": "loss"}, LOG),
    "synchronised, traced": (
        {
            "model": "synchronised",
            "fault": "backward",
            "hindrance": "calls",
            "options": TRACED,
        },
        ROOT,
    ),
    "sharded, batch": ({"model": "sharded", "fault": "forward"}, BATCH),
    "sharded, loss": ({"model": "sharded", "fault": "loss"}, LOG),
    "sharded, backward": ({"model": "sharded brain", "fault": "backward"}, ROOT),
    "sharded, cast": (
        {"model": "sharded half", "fault": "large"},
        ["aten._to_copy.default", "backward"],
    ),
    "sharded, averaged": ({"model": "sharded half sums", "fault": "large"}, CAST),
    "sharded, parts": ({"model": "sharded", "fault": "loss", "parts": 2}, LOG),
    "sharded, thrown away": ({"model": "sharded", "fault": "loss", "skips": True}, LOG),
    "flattened, traced": (
        {"model": "flattened", "fault": "loss", "options": TRACED},
        LOG,
    ),
    "sharded, traced": (
        {
            "model": "sharded",
            "fault": "backward",
            "hindrance": "memory",
            "options": TRACED,
        },
        ROOT,
    ),
}
"""Faults of rank 1 alone, and where they begin."""

TOGETHER: dict[str, tuple[dict[str, Any], list[str]]] = {
    "redundant, update": ({"model": "redundant", "fault": "optimizer"}, UPDATE),
    "sharded, update": ({"model": "sharded", "fault": "optimizer"}, UPDATE),
    "sharded, traced update": (
        {
            "model": "sharded",
            "fault": "optimizer",
            "hindrance": "memory",
            "options": TRACED,
        },
        UPDATE,
    ),
    "parallel, batch": ({"model": "parallel", "fault": "forward"}, BATCH),
    "parallel, backward": ({"model": "parallel", "fault": "backward"}, ROOT),
    "parallel, update": ({"model": "parallel", "fault": "optimizer"}, UPDATE),
    "parallel, traced": (
        {
            "model": "parallel",
            "fault": "loss",
            "hindrance": "calls",
            "options": TRACED,
        },
        LOG,
    ),
}
"""Faults of both ranks."""

HEALTHY = {
    "norm": {"level": "watch"},
    "redundant": {"level": "watch"},
    "synchronised": {"level": "trace"},
    "sharded": {"level": "watch"},
    "sharded brain": {"level": "trace"},
    "parallel": {"level": "trace"},
}
SURVIVORS = ["plain", "synchronised", "sharded"]
"""Models whose training goes on after a bad loss with finite gradients."""

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()),
    reason="this PyTorch has no gloo",
)


def ranks(scenarios: dict[str, Any]) -> Said:
    """Returns what each rank said; a rank that hangs fails the test."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "RANK": str(rank),
                "WORLD_SIZE": str(WORLD),
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": str(ROOT_FOLDER),
            },
        )
        for rank in range(WORLD)
    ]
    try:
        for process in started:
            assert process.stdin is not None
            process.stdin.write(json.dumps(scenarios))
            process.stdin.close()
            process.stdin = None
        ended = [process.communicate(timeout=240) for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()
    for process, (_, err) in zip(started, ended, strict=True):
        assert process.returncode == 0, err
    said: Said = {name: [] for name in scenarios}
    for out, _ in ended:
        for line in out.splitlines():
            told = json.loads(line)
            said[told["name"]].append(told)
    return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def said(folder: Path) -> Said:
    scenarios: dict[str, Any] = {}
    for name, (given, _) in ALONE.items():
        options: dict[str, Any] = {} if name in ASKED else dict(QUICK)
        scenarios[name] = {"options": options, **given, "bad": [1]}
    for name, (given, _) in TOGETHER.items():
        scenarios[name] = {"options": QUICK, **given, "bad": BOTH}
    for model, options in HEALTHY.items():
        scenarios[f"{model}, unwatched"] = {"model": model}
        scenarios[f"{model}, healthy"] = {"model": model, "options": options}
    for model in SURVIVORS:
        goes_on = {"model": model, "fault": "infinite", "bad": [1]}
        scenarios[f"{model}, unwatched fault"] = goes_on
        scenarios[f"{model}, survived"] = goes_on | {"options": {"on_error": "record"}}
    bad: dict[str, Any] = {"bad": [1], "options": QUICK}
    scenarios["folder"] = {"fault": "backward", **bad, "options": {"run": str(folder)}}
    scenarios["inside"] = {"model": "inside", "fault": "infinite", **bad}
    scenarios["skip"] = {"fault": "infinite", **bad, "options": {"on_error": "skip"}}
    both = {"model": "compressed", "fault": "large", "bad": BOTH, "options": {}}
    scenarios["compressed both"] = both
    loss = {"fault": "loss", **bad}
    scenarios["too large"] = {"model": "sharded", **loss, "hindrance": "memory"}
    # The last: its groups have lost a rank.
    scenarios["absent"] = {"model": "synchronised", **loss, "hindrance": "absence"}
    return ranks(scenarios)


@pytest.mark.parametrize("name", ALONE)
def test_the_bad_rank_and_its_operator_are_named_by_both_ranks(
    said: Said, name: str
) -> None:
    _, where = ALONE[name]
    assert [told["raised"] for told in said[name]] == [[BAD_STEP, 1, *where]] * 2


@pytest.mark.parametrize("name", TOGETHER)
def test_ranks_that_fail_together_each_name_the_operator(said: Said, name: str) -> None:
    _, where = TOGETHER[name]
    assert [told["raised"] for told in said[name]] == [
        [BAD_STEP, rank, *where] for rank in BOTH
    ]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("folder", "notice.harmed_by_rank"),
        ("sharded, backward", "notice.harmed_by_rank"),
        ("sharded, averaged", "notice.harmed_by_rank"),
        ("synchronised, batch", "notice.harmed_by_rank"),
        ("sharded, loss", "notice.stopped_with_rank"),
        ("inside", "notice.stopped_with_rank"),
    ],
)
def test_the_other_rank_says_whether_a_collective_harmed_it(
    said: Said, name: str, word: str
) -> None:
    assert f'{word} {{"rank": 1}}' in said[name][0]["events"]


@pytest.mark.parametrize("model", HEALTHY)
def test_watched_ranks_end_as_unwatched_ones(said: Said, model: str) -> None:
    alone, watched = said[f"{model}, unwatched"], said[f"{model}, healthy"]
    for key in ("digest", "random"):
        assert [told[key] for told in watched] == [told[key] for told in alone]
    assert [told["findings"] for told in watched] == [[], []]


@pytest.mark.parametrize("model", SURVIVORS)
def test_a_replay_leaves_the_training_that_goes_on_as_it_was(
    said: Said, model: str
) -> None:
    alone, watched = said[f"{model}, unwatched fault"], said[f"{model}, survived"]
    for key in ("digest", "random"):
        assert [told[key] for told in watched] == [told[key] for told in alone]
    assert [told["findings"][0][:3] for told in watched] == [[2, 1, "error"]] * 2
    assert not any("not_replayed" in e for told in watched for e in told["events"])


@pytest.mark.parametrize("name", ["sharded, backward", "synchronised, loss"])
def test_experiments_run_on_all_ranks(said: Said, name: str) -> None:
    ran = said[name][1]["experiments"]
    assert {ran["initial_parameters"], ran["rows"]} == {"failed"}


def test_float16_gradients_of_a_sharded_model_are_told_as_precision(said: Said) -> None:
    assert said["sharded, cast"][1]["experiments"]["float32"] == "healthy"
    assert [told["cause"] for told in said["sharded, cast"]] == ["precision"] * 2


def test_one_bad_rank_of_a_run_folder_is_first_in_its_report(
    said: Said, folder: Path
) -> None:
    run = open_run(folder)
    assert run.trace.meta["world_size"] == WORLD
    assert {(i.step, i.rank) for i in run.incidents} == {(0, 0), (0, 1), (2, 1)}
    first = content_of_run(folder).findings[0]
    assert (first.step, first.rank) == (2, 1)


def test_both_ranks_skip_an_update_that_is_bad_on_one(said: Said) -> None:
    first, second = said["skip"]
    assert first["digest"] == second["digest"]
    assert [told["raised"] for told in said["skip"]] == [None, None]
    assert BAD_STEP in second["skipped"]


def test_gradients_that_only_their_average_breaks_are_told_so(said: Said) -> None:
    told = said["compressed both"]
    assert [t["raised"] for t in told] == [[BAD_STEP, rank, *CAST] for rank in BOTH]
    assert [t["cause"] for t in told] == ["precision"] * 2


def test_a_model_too_large_to_gather_is_told_so_and_what_helps(said: Said) -> None:
    told = said["too large"]
    assert [t["raised"][:3] for t in told] == [[BAD_STEP, 1, "loss"]] * 2
    assert any("refusal.too_large" in e for e in told[1]["events"])


def test_ranks_give_up_on_one_that_does_not_come_along(said: Said) -> None:
    told = said["absent"]
    assert [t["raised"][:3] for t in told] == [[BAD_STEP, 1, "loss"]] * 2
    assert any("refusal.company_lost" in e for e in told[1]["events"])
    assert "fault.assistance" in told[0]["events"]
