# SPDX-License-Identifier: Apache-2.0
"""Experiments on a small regression that NumPy really runs again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from numcheck.diagnose import CannotRunError, Outcome, investigate
from numcheck.diagnose.experiments import run_experiments
from numcheck.measure import summarize
from tests.core.diagnose.story import Story

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.diagnose import Incident
    from numcheck.record import Site, Trace


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
        if name == "bfloat16":
            as_bfloat16 = self.x.astype(ml_dtypes.bfloat16)
            return self.outcome(as_bfloat16, self.w.astype(ml_dtypes.bfloat16))
        if name == "same":
            return self.outcome(self.x if self.is_faithful else self.x * 0, self.w)
        return self.outcome(self.x.astype(name), self.w.astype(name))

    def beside_float32(self) -> tuple[Trace, Mapping[int, float]]:
        story = self.told(self.x, self.w)
        return story.incident().trace, story.departures

    def operator_wider(self, trace: Trace, site: Site, name: str) -> Outcome:
        if site.op == "mul":
            out = self.x.astype(name) * self.w.astype(name)
        else:
            squared = (self.x * self.w).astype(name) ** 2
            out = np.sum(squared, dtype=name)
        return Outcome({"result": summarize(out)})

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
    assert results(bench) == {
        "float32": "healthy",
        "bfloat16": "healthy",
        "operator_wider": "healthy",
        "rows": "failed",
    }
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


def test_an_experiment_that_runs_out_of_memory_costs_itself_alone() -> None:
    def too_large(_: object) -> Outcome:
        msg = "cannot allocate 3 GiB\nwith a long trace"
        raise MemoryError(msg)

    bench = Bench(ones(), ones(1e30))
    bench.on_rows = too_large  # type: ignore[method-assign]
    done = run_experiments(bench.incident(), bench)
    assert done["rows"].result == "not_run"
    assert done["rows"].reason == "MemoryError: cannot allocate 3 GiB"
    assert done["float64"].result == "healthy"


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
    assert heard == [
        ("operator_wider", 0, 3),
        ("rows", 1, 3),
        ("float64", 2, 3),
        ("", 3, 3),
    ]


def test_a_fix_that_was_tried_leads_and_says_so() -> None:
    half = Bench(ones(*(200.0,) * 8, dtype="float16"), ones(1.0, dtype="float16"))
    (finding,) = investigate(half.incident(), half).findings
    assert [(a.key, a.tried) for a in finding.help][:2] == [
        ("bfloat16", True),
        ("float32_here", False),
    ]
    x = ones()
    x[5] = 1e30
    outlier = Bench(x, ones(1.0))
    (finding,) = investigate(outlier.incident(), outlier).findings
    assert (finding.help[0].key, finding.help[0].tried) == ("drop_samples", True)
    assert finding.help[0].fields["rows"] == "5"


def test_the_operator_alone_tells_the_magnitude_it_needs() -> None:
    half = Bench(ones(*(200.0,) * 8, dtype="float16"), ones(1.0, dtype="float16"))
    done = run_experiments(half.incident(), half)["operator_wider"]
    assert (done.fields["dtype"], done.fields["op"]) == ("float32", "sum")
    assert done.fields["amax"] == 8 * 200.0**2
    (finding,) = investigate(half.incident(), half).findings
    assert "operator_wider_healthy" in [e.key for e in finding.evidence]


def test_an_operator_that_fails_in_float64_too_is_not_healed_by_range() -> None:
    zero = Bench(ones(np.inf, *(1.0,) * 7), ones(1.0))
    assert "operator_wider" not in results(zero)  # the input itself is the origin


@dataclasses.dataclass
class Scaled(Bench):
    """The gradient of sum(x·w) under a loss scale, in float16."""

    factor: float = 2.0**15

    def told(self, x: Any, w: Any, factor: float | None = None) -> Story:
        story = Story(self.step)
        data, weight = story.source("input", x), story.source("parameter", w, "w")
        out = story.op("mul", np.multiply, data, weight)
        story.keep("loss", story.op("sum", np.sum, out))
        one = story.op("fill", lambda: np.float32(1.0), phase="backward")
        scale = self.factor if factor is None else factor
        seed = story.op("mul", np.multiply, one, scale, phase="backward")
        half = story.op(
            "mul", lambda s, v: v * np.asarray(s).astype(v.dtype), seed, data,
            phase="backward",
        )  # fmt: skip
        story.keep("gradient", half, "w")
        return story

    def with_loss_scale(self, factor: float, scale: float) -> Outcome:
        assert factor == self.factor
        view = self.told(self.x, self.w, scale).incident().view
        return Outcome({s.op: view.summaries[s.index] for s in view.kept()})


def scaled(x: float) -> Scaled:
    return Scaled(ones(*(x,) * 8, dtype="float16"), ones(1.0, dtype="float16"))


def test_the_largest_loss_scale_that_is_healthy_is_found_and_advised() -> None:
    bench = scaled(20.0)
    done = run_experiments(bench.incident(), bench)["without_loss_scale"]
    assert (done.result, done.fields) == (
        "healthy",
        {"scale": 2.0**15, "largest": 2.0**11},
    )
    assert 20.0 * 2.0**11 < float(np.finfo(np.float16).max) < 20.0 * 2.0**12
    (finding,) = investigate(bench.incident(), bench).findings
    assert finding.cause
    assert (finding.cause.rule, finding.cause.certainty) == ("N153", "certain")
    assert finding.help[0].key == "loss_scale_of"
    assert finding.help[0].fields == {"scale": 2.0**11}


def test_a_gradient_that_overflows_unscaled_is_not_blamed_on_the_scale() -> None:
    bench = scaled(20.0)
    bench.with_loss_scale = lambda *_: bench.outcome(bench.x, bench.w)  # type: ignore[method-assign]
    assert results(bench)["without_loss_scale"] == "failed"
    (finding,) = investigate(bench.incident(), bench).findings
    assert finding.cause
    assert finding.cause.rule != "N153"


def test_without_a_scale_in_play_none_is_varied() -> None:
    half = Bench(ones(*(200.0,) * 8, dtype="float16"), ones(1.0, dtype="float16"))
    assert "without_loss_scale" not in results(half)


def test_an_outlier_in_half_precision_is_the_datas_fault() -> None:
    x = ones(dtype="float16")
    x[5] = 40_000.0  # a metre written in millimetres and more; its square is no half
    bench = Bench(x, ones(1.0, dtype="float16"))
    (finding,) = investigate(bench.incident(), bench).findings
    assert finding.cause
    assert (finding.cause.cls, finding.cause.rule) == ("data", "N055")
    assert finding.help[0].key == "drop_samples"
    even = Bench(ones(*(200.0,) * 8, dtype="float16"), ones(1.0, dtype="float16"))
    (finding,) = investigate(even.incident(), even).findings
    assert finding.cause
    assert finding.cause.cls == "precision"
