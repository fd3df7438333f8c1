# SPDX-License-Identifier: Apache-2.0
"""Experiments on a small regression that NumPy really runs again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.diagnose import CannotRunError, Outcome, investigate
from numcheck.diagnose.experiments import run_experiments
from tests.core.diagnose.story import Story

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.diagnose import Incident
    from numcheck.record import Trace


@dataclasses.dataclass
class Bench:
    """Mean of (x·w)², in the format of its data; a `Laboratory`."""

    x: np.ndarray[Any, Any]
    w: np.ndarray[Any, Any]
    first_w: np.ndarray[Any, Any] | None = None
    step: int = 0
    is_faithful: bool = True

    def told(self, x: Any, w: Any) -> Story:
        story = Story(self.step)
        data = story.source("input", x)
        weight = story.source("parameter", w, "w")
        out = story.op("mul", np.multiply, data, weight)
        story.keep("loss", story.op("sum", lambda v: np.sum(v * v, dtype=v.dtype), out))
        return story

    def outcome(self, x: Any, w: Any) -> Outcome:
        view = self.told(x, w).incident().view
        return Outcome({s.op: view.summaries[s.index] for s in view.kept()})

    def incident(self) -> Incident:
        return self.told(self.x, self.w).incident()

    def replay(self) -> Trace:
        return self.incident().trace

    def in_format(self, name: str) -> Outcome:
        if name == "same":
            return self.outcome(self.x if self.is_faithful else self.x * 0, self.w)
        return self.outcome(self.x.astype(name), self.w.astype(name))

    def beside_float32(self) -> tuple[Trace, Mapping[int, float]]:
        story = self.told(self.x, self.w)
        return story.incident().trace, story.departures

    def rows(self) -> int | None:
        return len(self.x)

    def on_rows(self, rows: Sequence[int]) -> Outcome:
        return self.outcome(self.x[list(rows)], self.w)

    def at_initial_parameters(self) -> Outcome:
        if self.first_w is None:
            msg = "the initial parameters were not kept"
            raise CannotRunError(msg)
        return self.outcome(self.x, self.first_w)


def ones(*values: float, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.array(values or (1.0,) * 8, dtype)[:, None]


def results(bench: Bench, **options: Any) -> dict[str, str]:
    done = run_experiments(bench.incident(), bench, **options)
    return {name: e.result for name, e in done.items()}


def test_half_precision_that_overflows_heals_in_float32() -> None:
    bench = Bench(ones(*(200.0,) * 8, dtype="float16"), ones(1.0, dtype="float16"))
    assert results(bench) == {"float32": "healthy", "rows": "failed"}
    (finding,) = investigate(bench.incident(), bench).findings
    assert finding.cause
    assert finding.cause.cls == "precision"


def test_float32_that_overflows_is_asked_in_float64_only() -> None:
    bench = Bench(ones(*(1e25,) * 8), ones(1.0))
    assert results(bench)["float64"] == "healthy"
    assert "float32" not in results(bench)


def test_a_lift_that_does_not_repeat_the_step_is_not_trusted() -> None:
    bench = Bench(
        ones(*(200.0,) * 8, dtype="float16"),
        ones(1.0, dtype="float16"),
        is_faithful=False,
    )
    assert results(bench)["float32"] == "not_run"


def test_the_one_sample_that_carries_the_failure_is_named() -> None:
    x = ones()
    x[5] = 1e30
    bench = Bench(x, ones(1.0))
    done = run_experiments(bench.incident(), bench)
    assert done["rows"].fields == {"rows": "5", "count": 1, "of": 8}
    (finding,) = investigate(bench.incident(), bench).findings
    assert finding.cause
    assert (finding.cause.cls, finding.cause.rule) == ("data", "N055")


def test_a_later_step_is_asked_at_its_initial_parameters() -> None:
    drifted = Bench(ones(), ones(1e30), first_w=ones(1.0), step=9)
    assert results(drifted)["initial_parameters"] == "healthy"
    (finding,) = investigate(drifted.incident(), drifted).findings
    assert finding.cause
    assert finding.cause.cls == "dynamics"
    first = Bench(ones(), ones(1e30), first_w=ones(1.0))
    assert "initial_parameters" not in results(first)


def test_what_cannot_run_says_why_and_counts_for_nothing() -> None:
    bench = Bench(ones(), ones(1e30), step=9)
    done = run_experiments(bench.incident(), bench)["initial_parameters"]
    assert (done.result, done.reason) == (
        "not_run",
        "the initial parameters were not kept",
    )


def test_nothing_is_run_without_time_or_without_harm() -> None:
    bench = Bench(ones(), ones(1e30))
    assert set(results(bench, budget_s=0.0).values()) == {"not_run"}
    assert results(Bench(ones(), ones(1.0))) == {}


def test_nothing_is_run_when_experiments_are_off() -> None:
    bench = Bench(ones(), ones(1e30))
    (finding,) = investigate(bench.incident(), bench, experiments=False).findings
    assert not any("float64" in e.key for e in finding.evidence)


def test_progress_is_told_before_each_experiment_and_at_the_end() -> None:
    heard: list[tuple[str, int, int]] = []
    bench = Bench(ones(), ones(1e30))
    run_experiments(bench.incident(), bench, progress=lambda *p: heard.append(p))
    assert heard == [("float64", 0, 2), ("rows", 1, 2), ("", 2, 2)]
