# SPDX-License-Identifier: Apache-2.0
"""Ten questions, each answered by what was measured and by nothing else."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.cli import main
from numcheck.diagnose.finding import Cause, Finding
from numcheck.diagnose.incident import Experiment
from numcheck.diagnose.triage import QUESTIONS, Known, triage
from numcheck.measure import summarize
from numcheck.record import Event, RunWriter, Site, TraceBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from numcheck.diagnose.triage import Answer
    from numcheck.record import Trace


def asked(known: Known, question: str) -> Answer:
    return next(a for a in triage(known) if a.question == question)


def network(
    gain: float = 1.0,
    *,
    scale: float = 1.0,
    norm: float = 1.0,
    dtype: str = "float32",
    step: int = 0,
) -> Trace:
    """A stack of four products and a normalisation, computed by NumPy."""
    rng = np.random.default_rng(0)
    builder = TraceBuilder(step)
    x = rng.normal(size=(64, 32)) * scale
    site = Site(0, "input:input", "data", "source", "input", dtype="float32")
    builder.add(site, summarize(x.astype(np.float32)))
    for layer in range(4):
        x = x * gain
        held = summarize(x.astype(np.dtype(dtype)))
        site = Site(
            0, "dot", "forward", family="matmul", dtype=dtype, scope=f"layer{layer}"
        )
        builder.add(site, held)
        weight = rng.normal(size=(8,)) * 0.1
        kept = Site(0, f"gradient:layer{layer}", "backward", "kept", "gradient")
        builder.add(kept, summarize(weight))
    normal = summarize(norm * rng.normal(size=(64, 32)).astype(np.float32))
    site = Site(0, "norm", "forward", family="normalisation", dtype="float32")
    builder.add(site, normal)
    return builder.build()


def error(step: int) -> Finding:
    return Finding("N101", "error", Site(1, "dot", "forward"), step, "+inf")


def test_nothing_known_answers_nothing() -> None:
    assert [(a.question, a.verdict) for a in triage(Known())] == [
        (q, "not_measured") for q in QUESTIONS
    ]


def test_a_batch_that_fails_at_the_initial_parameters_is_no_drift() -> None:
    result = "failed"
    known = Known(
        findings=[error(7)], experiments=[Experiment("initial_parameters", result)]
    )
    assert asked(known, "first_step").text == "no_drift"
    known = dataclasses.replace(known, findings=[error(0)])
    assert asked(known, "first_step").verdict == "yes"


@pytest.mark.parametrize(("step", "verdict"), [(0, "yes"), (7, "no")])
def test_the_first_step_is_told_from_a_later_one(step: int, verdict: str) -> None:
    answer = asked(Known(findings=[error(step)]), "first_step")
    assert (answer.verdict, answer.fields["step"]) == (verdict, step)


@pytest.mark.parametrize(
    ("scale", "verdict"), [(1.0, "yes"), (20.0, "yes"), (200.0, "no"), (np.nan, "no")]
)
def test_the_batch_is_held_against_an_ordinary_scale(
    scale: float, verdict: str
) -> None:
    assert asked(Known(network(scale=scale)), "input_scale").verdict == verdict


@pytest.mark.parametrize(
    ("dtype", "verdict"), [("float16", "yes"), ("float32", "no"), ("bfloat16", "no")]
)
def test_headroom_is_held_against_the_activations_own_format(
    dtype: str, verdict: str
) -> None:
    import ml_dtypes  # noqa: F401 - registers bfloat16 with NumPy

    trace = network(gain=1.0, scale=8000.0, dtype=dtype)
    assert asked(Known(trace), "activations").verdict == verdict


def test_a_vanished_gradient_is_named() -> None:
    trace = network()
    held = dict(trace.at(0).summaries)
    gradients = [s.index for s in trace.sites if s.role == "gradient"]
    assert asked(Known(trace), "gradients").verdict == "no"
    held[gradients[1]] = summarize(np.zeros(8))
    trace = dataclasses.replace(trace, summaries={(0, 0): held})
    answer = asked(Known(trace), "gradients")
    assert (answer.verdict, answer.fields["low"]) == ("yes", "gradient:layer1")


@pytest.mark.parametrize(
    ("result", "verdict"),
    [("healthy", "yes"), ("failed", "no"), ("not_run", "not_measured")],
)
def test_float32_is_answered_by_the_experiment_alone(result: str, verdict: str) -> None:
    experiment = Experiment("float32", result)  # type: ignore[arg-type]
    known = Known(network(), experiments=[experiment])
    assert asked(known, "float32").verdict == verdict


def test_the_devices_flag_counts_only_where_it_can_be_read() -> None:
    assert asked(Known(), "device_flag").verdict == "not_measured"
    unread = Known(settings={"overflow_flag": False})
    assert asked(unread, "device_flag").verdict == "not_measured"
    raised = Known(settings={"overflow_flag": True})
    assert asked(raised, "device_flag").verdict == "yes"


@pytest.mark.parametrize(("norm", "verdict"), [(1.0, "yes"), (1e4, "no")])
def test_a_normalisation_that_lets_values_run_away_does_no_work(
    norm: float, verdict: str
) -> None:
    assert asked(Known(network(norm=norm)), "normalisation").verdict == verdict


def test_clipping_is_seen_or_the_norm_is_told() -> None:
    clipped = Known(settings={"clip_norm": 1.0})
    assert asked(clipped, "clipping").verdict == "yes"
    norms = [Event("gradient_norm", s, float(s)) for s in range(5)]
    answer = asked(Known(events=norms), "clipping")
    assert (answer.verdict, answer.fields["norm"]) == ("no", 4.0)


@given(st.floats(0.05, 20.0))
def test_the_initialisations_gain_is_the_growth_from_product_to_product(
    gain: float,
) -> None:
    answer = asked(Known(network(gain)), "initialisation")
    assert answer.fields["gain"] == pytest.approx(gain, rel=1e-3)
    assert answer.verdict == (
        "yes" if 0.5 <= float(answer.fields["gain"]) <= 2 else "no"
    )


def test_a_run_that_began_later_says_nothing_of_its_initialisation() -> None:
    answer = asked(Known(network(step=5)), "initialisation")
    assert answer.verdict == "not_measured"


def test_the_first_step_of_any_rank_tells_of_the_initialisation() -> None:
    trace = network(2.0)
    moved = {(0, 1): trace.summaries[0, 0], (4, 0): {}}
    known = Known(dataclasses.replace(trace, summaries=moved))
    assert asked(known, "initialisation").fields["gain"] == pytest.approx(2.0)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_command_asks_all_ten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lang: str
) -> None:
    RunWriter(tmp_path).trace.trace(network())
    with pytest.raises(SystemExit) as ended:
        main(["triage", str(tmp_path), "--lang", lang])
    assert ended.value.code == 0
    told = capsys.readouterr().out.splitlines()
    numbered = [line for line in told if line[:2].strip().isdigit()]
    assert len(numbered) == 10


def test_a_value_outside_a_domain_is_no_sign_of_a_full_format() -> None:
    trace = network()
    held = dict(trace.at(0).summaries)
    held[1] = summarize(np.array([np.nan, 1.0], np.float32))
    trace = dataclasses.replace(trace, summaries={(0, 0): held})
    root = Finding("N302", "error", trace.sites[1], 0, "nan")
    assert asked(Known(trace, [root]), "activations").verdict == "no"
    over = Finding("N101", "error", trace.sites[1], 0, "+inf")
    assert asked(Known(trace, [over]), "activations").verdict == "yes"


def test_a_norm_that_grows_from_step_to_step_explodes() -> None:
    trace = network()
    norms = [Event("gradient_norm", step, 10.0**step) for step in range(12)]
    answer = asked(Known(trace, events=norms), "gradients")
    assert (answer.verdict, answer.fields["largest"]) == ("yes", 1e11)
    steady = [Event("gradient_norm", step, 1.0 + step) for step in range(12)]
    assert asked(Known(trace, events=steady), "gradients").verdict == "no"


def test_no_norm_of_a_broken_step_counts_as_the_largest() -> None:
    norms = [Event("gradient_norm", s, v) for s, v in enumerate((1.0, np.inf, np.nan))]
    assert asked(Known(events=norms), "clipping").fields["norm"] == 1.0
    assert asked(Known(events=norms[1:]), "clipping").verdict == "not_measured"


def test_a_drift_with_no_norm_on_the_way_is_not_called_healthy() -> None:
    trace, nan = network(), summarize(np.full(8, np.nan))
    broken = {
        index: nan if trace.sites[index].role == "gradient" else held
        for index, held in trace.summaries[0, 0].items()
    }
    summaries = {**trace.summaries, (9, 0): broken}
    trace = dataclasses.replace(trace, summaries=summaries)
    drift = dataclasses.replace(error(9), cause=Cause("dynamics", "N751", "likely"))
    assert asked(Known(trace, [drift]), "gradients").verdict == "not_measured"
    known = Known(trace, [drift], events=[Event("gradient_norm", 8, 2.0)])
    assert asked(known, "gradients").verdict == "no"
    assert asked(Known(trace, [error(9)]), "gradients").text == "no_before"


def test_a_normalisation_that_breaks_first_does_no_work() -> None:
    trace = network()
    layer = next(s for s in trace.sites if s.family == "normalisation")
    born = Finding("N301", "error", layer, 0, "nan")
    answer = asked(Known(trace, [born]), "normalisation")
    assert (answer.verdict, answer.text) == ("no", "broke")


def test_two_products_tell_no_growth() -> None:
    trace = network()
    held = {i: s for i, s in trace.summaries[0, 0].items() if i < 4}
    trace = dataclasses.replace(trace, summaries={(0, 0): held})
    assert asked(Known(trace), "initialisation").verdict == "not_applicable"
