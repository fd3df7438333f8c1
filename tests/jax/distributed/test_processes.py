# SPDX-License-Identifier: Apache-2.0
"""Two processes that train together: the one with the fault names it, none waits."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jax.distributed.worker import FAULTY, FAULTY_STEP

WORKER = Path(__file__).with_name("worker.py")
SCENARIOS = ("raise", "at once", "trace", "laid out", "split weight")
LIMIT_S = 240
ONE_DEVICE = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    """What each process says of each scenario."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = str(WORKER.parents[3])
    ran = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(rank), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **ONE_DEVICE, "PYTHONPATH": root},
            text=True,
        )
        for rank in (0, 1)
    ]
    found = []
    try:
        for process in ran:
            out, err = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, err
            lines = [json.loads(x) for x in out.splitlines() if x.startswith("{")]
            found.append(dict(zip(SCENARIOS, lines, strict=True)))
    finally:
        for process in ran:
            process.kill()
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_goes_wrong_inside_numcheck(told: Any, name: str) -> None:
    assert [process[name]["faults"] for process in told] == [[], []]


@pytest.mark.parametrize("name", ["raise", "at once", "trace", "laid out"])
def test_process_with_the_fault_names_it(told: Any, name: str) -> None:
    first = told[FAULTY][name]["findings"][0]
    assert (first["op"], first["rank"], first["step"]) == ("log", FAULTY, FAULTY_STEP)
    assert first["line"] == "return jnp.mean(jnp.log(x @ w))"


@pytest.mark.parametrize("name", ["raise", "at once", "trace", "laid out"])
def test_other_process_says_that_the_fault_is_elsewhere(told: Any, name: str) -> None:
    (finding,) = told[1 - FAULTY][name]["findings"]
    assert (finding["id"], finding["op"]) == ("N903", "loss")
    assert finding["why"] == ["refusal.born_elsewhere"]


def test_step_that_needs_the_others_is_not_run_again_and_says_so(told: Any) -> None:
    for process in told:
        (finding,) = process["split weight"]["findings"]
        assert finding["id"] == "N903"
        assert finding["why"][0].startswith("refusal.other_processes")
