# SPDX-License-Identifier: Apache-2.0
"""What the batch adds to a finding, and that it never makes one."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numcheck.datacheck.evidence import batch_evidence
from numcheck.diagnose import CannotRunError, diagnose, investigate
from numcheck.diagnose.incident_json import incident_from_json, incident_to_json
from numcheck.report.messages import LANGUAGES, text
from tests.core.diagnose.test_experiments import Bench

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclasses.dataclass
class Holding(Bench):
    """A regression that can show its batch."""

    is_gone: bool = False
    asked: int = 0

    def batch(self) -> Mapping[str, NDArray[Any]]:
        self.asked += 1
        if self.is_gone:
            msg = "the batch was overwritten"
            raise CannotRunError(msg)
        return {"x": self.x}


def bench(value: float, **known: Any) -> Holding:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)
    x[4, 1] = value
    return Holding(x, np.ones(2, np.float32), **known)


def told(findings: Any) -> list[tuple[str, Any]]:
    evidence = [e for f in findings for e in f.evidence]
    return [(e.key, e.fields["place"]) for e in evidence if e.key.startswith("data_")]


def test_an_outlier_is_told_with_its_row_and_column() -> None:
    found = investigate(bench(3e25).incident(), bench(3e25))
    (finding,) = found.findings
    assert finding.cause is not None
    assert finding.cause.rule == "N055"
    assert told(found.findings) == [("data_N014", "x[4, 1]")]


def test_what_the_batch_showed_is_kept_for_a_later_diagnosis() -> None:
    holding = bench(3e25)
    found = investigate(holding.incident(), holding)
    assert diagnose(found.incident) == found.findings
    written = json.loads(json.dumps(incident_to_json(found.incident)))
    read = incident_from_json(found.incident.trace, 0, 0, written)
    assert told(diagnose(read)) == [("data_N014", "x[4, 1]")]


def test_a_healthy_step_is_not_looked_at() -> None:
    holding = bench(50.0)
    assert investigate(holding.incident(), holding).findings == ()
    assert holding.asked == 0


def test_a_batch_that_is_gone_costs_nothing_else() -> None:
    holding = bench(3e25, is_gone=True)
    (finding,) = investigate(holding.incident(), holding).findings
    assert holding.asked == 1
    assert finding.cause is not None
    assert told([finding]) == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_all_evidence_can_be_said(lang: str) -> None:
    evidence = batch_evidence(
        {
            "x": np.array([[1e30, np.nan, 1.0]] + 4 * [[1.0, 5e3, 1.0]]),
            "far": np.array([0.1, 0.2, 0.3, 9e6]),
            "images": np.arange(256.0).reshape(4, 8, 8),
            "labels": np.array([-1, 3]),
            "targets": np.array([-100]),
            "mask": np.array([[False]]),
            "counts": np.array([0]),
            "big": np.array([2**40]),
        }
    )
    assert len({e.key for e in evidence}) == 12
    for one in evidence:
        assert text(f"evidence.{one.key}", lang, **one.fields)


@pytest.mark.parametrize("index", [(3, 0, 2, 2), (5, 1, 0, 1)])
def test_the_first_nan_of_a_batch_is_named_by_its_whole_index(
    index: tuple[int, ...],
) -> None:
    x = np.random.default_rng(0).normal(size=(8, 3, 4, 4))
    x[index] = np.nan
    x[7] = np.inf
    (found,) = [e for e in batch_evidence({"x": x}) if e.key == "data_N011"]
    assert found.fields["place"] == f"x[{', '.join(map(str, index))}]"
