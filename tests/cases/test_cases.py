# SPDX-License-Identifier: Apache-2.0
"""Programs that go wrong for a known reason are explained; healthy ones are left alone.

Each case runs as `benchmarks/cases.py` runs it: default options, public API.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cases import is_false_alarm, load, run, score

HERE = Path(__file__).parent
CASES = {p.relative_to(HERE).as_posix(): p for p in sorted(HERE.rglob("[0-9]*.py"))}
CONTROLS = [n for n in CASES if "controls" in Path(n).parts]
FAULTY = [n for n in CASES if n not in CONTROLS]
HEALTHY = [(n, "control") for n in CONTROLS]
HEALTHY += [(n, "fixed") for n in FAULTY]


@pytest.mark.parametrize("name", FAULTY)
def test_the_fault_is_named_where_it_was_born(name: str) -> None:
    result = run(CASES[name], name, "faulty")
    assert not result.trouble
    said = [result.as_json()["findings"]]
    marks = score(result, load(CASES[name]).EXPECTED)
    assert all(marks.values()), (marks, said)


@pytest.mark.parametrize(
    ("name", "variant"), HEALTHY, ids=[f"{n}-{v}" for n, v in HEALTHY]
)
def test_a_healthy_program_gives_no_finding(name: str, variant: str) -> None:
    result = run(CASES[name], name, variant)
    assert not result.trouble
    assert not is_false_alarm(result), result.as_json()["findings"]
