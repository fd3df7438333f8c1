# SPDX-License-Identifier: Apache-2.0
"""Two processes that train one model: same results, one stop, one rank named."""

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
WORLD = 2

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()),
    reason="this PyTorch has no gloo",
)


def ranks(*arguments: str, **options: Any) -> list[dict[str, Any]]:
    """Returns what each rank said; a rank that hangs fails the test."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(WORKER), *arguments]
    command += ["--options", json.dumps(options)]
    started = [
        subprocess.Popen(
            command,
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
            },
        )
        for rank in range(WORLD)
    ]
    try:
        ended = [process.communicate(timeout=180) for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()
    for process, (_, err) in zip(started, ended, strict=True):
        assert process.returncode == 0, err
    return [json.loads(out.splitlines()[-1]) for out, _ in ended]


@pytest.mark.parametrize(
    ("order", "kind", "plain"),
    [
        ("outside", "norm", "alone"),
        ("sharded", "plain", "sharded"),
    ],
    ids=["replicated", "sharded"],
)
def test_watched_ranks_end_with_the_parameters_of_unwatched_ones(
    order: str, kind: str, plain: str
) -> None:
    alone = ranks("--order", plain, "--kind", kind)
    watched = ranks("--order", order, "--kind", kind, on_error="raise")
    assert [r["digest"] for r in watched] == [r["digest"] for r in alone]
    assert [r["raised"] for r in watched] == [None, None]
    assert [r["findings"] for r in watched] == [[], []]


@pytest.mark.parametrize(
    ("order", "fault", "word"),
    [
        ("outside", "nan", "notice.harmed_by_rank"),
        ("inside", "loss only", "notice.stopped_with_rank"),
    ],
    ids=["nan", "loss only"],
)
def test_one_bad_rank_stops_both_and_is_named_by_both(
    tmp_path: Path, order: str, fault: str, word: str
) -> None:
    said = ranks(
        "--order", order, "--bad-rank", "1", "--fault", fault, run=str(tmp_path)
    )
    assert [r["raised"] and r["raised"][:2] for r in said] == [[2, 1], [2, 1]]
    assert said[0]["raised"] == said[1]["raised"]
    assert said[0]["events"] == [f'{word} {{"rank": 1}}']
    assert said[1]["events"] == []
    run = open_run(tmp_path)
    assert run.trace.meta["world_size"] == WORLD
    assert {(i.step, i.rank) for i in run.incidents} == {(0, 0), (0, 1), (2, 1)}
    first = content_of_run(tmp_path).findings[0]
    assert (first.step, first.rank) == (2, 1)


def test_both_ranks_skip_an_update_that_is_bad_on_one() -> None:
    said = ranks(
        "--order", "outside", "--bad-rank", "1", "--fault", "loss only", on_error="skip"
    )
    assert said[0]["digest"] == said[1]["digest"]
    assert [r["raised"] for r in said] == [None, None]
    assert 2 in said[1]["skipped"]


def test_gradients_that_only_their_average_breaks_are_told_so(tmp_path: Path) -> None:
    said = ranks("--order", "compressed", "--fault", "large", run=str(tmp_path))
    assert [r["raised"] for r in said] == [
        [2, rank, "aten._to_copy.default"] for rank in range(WORLD)
    ]
    found = content_of_run(tmp_path).findings[0]
    assert (found.id, found.site.dtype) == ("N105", "float16")
    assert found.cause is not None
    assert found.cause.cls == "precision"


def test_sharded_ranks_stop_together_and_say_what_was_not_replayed() -> None:
    said = ranks("--order", "sharded", "--bad-rank", "0", on_error="raise")
    assert [r["raised"] and r["raised"][0] for r in said] == [2, 2]
    assert all(any("sharded" in e for e in r["events"]) for r in said)
