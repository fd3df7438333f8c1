# SPDX-License-Identifier: Apache-2.0
"""Two runs are aligned by what they compute, and part where they really do."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.cli import main
from numcheck.comparison import compare_traces
from numcheck.comparison.names import canonical
from numcheck.errors import ArgumentError
from numcheck.record import RunWriter
from numcheck.report.comparison import comparison_table
from tests.core.comparison.runs import FLAX, SCOPES, layers, run
from tests.core.foreign.dumps import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from numcheck.record import Trace


@pytest.mark.parametrize(
    ("torch_name", "flax_name"),
    [
        ("blocks.0.up.weight", "params['blocks_0']['up']['kernel']"),
        ("ln1.weight", "params/ln1/scale"),
        ("tok.weight", "['tok']['embedding']"),
        ("_orig_mod.module.head.bias", "head.bias"),
        ("bn.running_mean", "bn/mean"),
    ],
    ids=["kernel", "scale", "embedding", "wrapped", "statistics"],
)
def test_a_place_has_one_name_in_both_frameworks(
    torch_name: str, flax_name: str
) -> None:
    assert canonical(torch_name) == canonical(flax_name)


def test_the_same_run_twice_is_equal() -> None:
    values = layers(np.random.default_rng(0), 4)
    a = run(SCOPES, values, {"w": values[0]})
    comparison = compare_traces(a, a)
    assert {d.verdict for d in comparison.departures} == {"equal"}
    assert comparison.first_difference is None


def test_a_transposed_kernel_is_the_same_kernel() -> None:
    values = layers(np.random.default_rng(0), 4)
    a = run(SCOPES, values, {"blocks.0.up.weight": values[0]})
    b = run(FLAX, values, {"blocks_0/up/kernel": values[0].T}, "y")
    comparison = compare_traces(a, b)
    assert comparison.first_difference is None
    assert comparison.alignment.only_a == comparison.alignment.only_b == ()


def test_a_fused_projection_meets_its_parts() -> None:
    q, k, v = layers(np.random.default_rng(1), 3)
    a = run([], [], {"attn.qkv.weight": np.concatenate([q, k, v])})
    parts = {f"attn/{n}/kernel": x for n, x in zip("qkv", (q, k, v), strict=True)}
    for first, second in ((a, run([], [], parts)), (run([], [], parts), a)):
        (departure,) = compare_traces(first, second).departures
        assert departure.pair.how == "fused"
        assert departure.roundings < 1


def test_a_users_map_joins_other_names() -> None:
    values = layers(np.random.default_rng(0), 2)
    a = run(["enc.a", "enc.b"], values, {})
    b = run(["body/x", "body/y"], values[::-1], {}, "y")
    names = {"enc.a": "body.y", "enc.b": "body.x"}
    comparison = compare_traces(a, b, names=names)
    assert {d.pair.how for d in comparison.departures} == {"map"}
    assert comparison.first_difference is None


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            {"enc.c": "enc.a"},
            "nothing in a is called 'enc.c'; the nearest is 'enc\\.[ab]'",
        ),
        ({"enc.a": "body"}, "nothing in b is called 'body'"),
    ],
    ids=["left", "right"],
)
def test_a_map_of_what_is_not_there_is_refused(
    names: dict[str, str], said: str
) -> None:
    both = run(["enc.a", "enc.b"], layers(np.random.default_rng(0), 2), {})
    with pytest.raises(ArgumentError, match=said):
        compare_traces(both, both, names=names)


@given(st.integers(0, 3), st.integers(0, 2**32))
def test_a_planted_difference_is_named_at_its_layer(layer: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = layers(rng, 4)
    noise = [x * (1 + np.float32(2e-7) * np.float32(i)) for i, x in enumerate(values)]
    changed = [x * np.float32(1.01) if i >= layer else x for i, x in enumerate(noise)]
    comparison = compare_traces(run(SCOPES, values, {}), run(FLAX, changed, {}, "y"))
    first = comparison.first_difference
    assert first is not None
    assert first.pair.a.site.scope == SCOPES[layer]


def test_rounding_to_half_precision_is_no_difference() -> None:
    values = layers(np.random.default_rng(0), 4)
    halves = [x.astype(np.float16) for x in values]
    a, b = run(SCOPES, values, {}), run(SCOPES, halves, {})
    verdicts = {d.verdict for d in compare_traces(a, b).departures}
    assert verdicts <= {"equal", "rounding"}


def test_nan_against_inf_is_equal_and_against_a_number_is_not() -> None:
    values = layers(np.random.default_rng(0), 1)
    nan, inf = values[0].copy(), values[0].copy()
    nan[0, 0], inf[0, 0] = math.nan, math.inf
    runs = [run(SCOPES[:1], [x], {}) for x in (values[0], nan, inf)]
    assert compare_traces(runs[1], runs[2]).first_difference is None
    first = compare_traces(runs[0], runs[1]).first_difference
    assert first is not None
    assert first.verdict == "non-finite"


def cheap(trace: Trace, *fields: str) -> Trace:
    """Returns a trace of which some fields were not measured."""
    missing = dict.fromkeys(fields)
    measured = {
        key: {i: dataclasses.replace(s, **missing) for i, s in held.items()}
        for key, held in trace.summaries.items()
    }
    return dataclasses.replace(trace, summaries=measured)


def test_what_was_not_measured_is_no_difference() -> None:
    a = run(SCOPES, layers(np.random.default_rng(0), 4), {})
    b = cheap(a, "nan", "pos_inf", "neg_inf", "total", "total_sq", "low", "high")
    for pair in ((a, b), (b, a)):
        comparison = compare_traces(*pair)
        assert comparison.first_difference is None
        assert len(comparison.departures) == 8


def test_points_without_sums_are_said_to_be_compared_coarsely() -> None:
    a = run(SCOPES, layers(np.random.default_rng(0), 4), {})
    whole = comparison_table(compare_traces(a, a), "a", "b", lang="en", width=200)
    table = comparison_table(
        compare_traces(a, cheap(a, "total", "total_sq")), "a", "b", lang="en", width=200
    )
    assert "8 points were compared by largest magnitude alone" in table
    assert "largest magnitude" not in whole


def test_nothing_measured_is_nothing_to_compare() -> None:
    a = run(SCOPES, layers(np.random.default_rng(0), 4), {})
    fields = ("nan", "pos_inf", "neg_inf", "total", "total_sq", "low", "high", "amax")
    comparison = compare_traces(a, cheap(a, *fields))
    assert comparison.departures == ()
    assert len(comparison.alignment.only_a) == 8


def test_what_has_no_partner_is_listed() -> None:
    values = layers(np.random.default_rng(0), 2)
    a, b = run(SCOPES[:2], values, {}), run(FLAX[:1], values[:1], {}, "y")
    alignment = compare_traces(a, b).alignment
    assert [p.site.scope for p in alignment.only_a] == [SCOPES[1]]
    assert alignment.only_b == ()


def test_the_command_names_where_two_runs_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = layers(np.random.default_rng(0), 4)
    other = [*values[:2], *(x * np.float32(1.1) for x in values[2:])]
    for name, held in (("a", values), ("b", other)):
        RunWriter(tmp_path / name).trace.trace(run(SCOPES, held, {}))
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert ended.value.code == 1
    told = capsys.readouterr().out
    assert "the runs part at module blocks.2.up" in told.replace("\n  ", " ")


def test_the_command_exits_clean_when_the_runs_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = layers(np.random.default_rng(0), 2)
    RunWriter(tmp_path).trace.trace(run(SCOPES[:2], values, {}))
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path), str(tmp_path), "--lang", "zh"])
    assert ended.value.code == 0
    assert "完全相等" in capsys.readouterr().out


def test_a_malformed_map_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "a", "b", "--map", "x"])
    assert ended.value.code == 2
    assert "expects NAME=NAME" in capsys.readouterr().err


def test_what_of_a_run_could_not_be_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RunWriter(tmp_path).trace.trace(
        run(SCOPES, layers(np.random.default_rng(0), len(SCOPES)), {})
    )
    segment = next(tmp_path.rglob("summaries-*.bin"))
    segment.write_bytes(segment.read_bytes() + b"torn")
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path), str(tmp_path), "--lang", "en"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("4 bytes cannot be read") == 2


def test_points_in_common_are_needed_for_a_clean_exit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = layers(np.random.default_rng(0), 1)
    for name, framework in (("a", "x"), ("b", "y")):
        weights = {name: values[0] if name == "a" else values[0][:1]}
        RunWriter(tmp_path / name).trace.trace(run([], [], weights, framework))
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--lang", "en"])
    assert ended.value.code == 2
    assert "no point of the two runs could be paired" in capsys.readouterr().out


@pytest.mark.parametrize(("step_a", "step_b"), [(7, None), (None, -1)])
def test_a_step_that_was_not_recorded_is_refused(
    step_a: int | None, step_b: int | None
) -> None:
    a = run(SCOPES, layers(np.random.default_rng(0), 4), {})
    with pytest.raises(ArgumentError, match="must be a recorded step"):
        compare_traces(a, a, step_a=step_a, step_b=step_b)


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [("values", "values", 0), ("half", "causal", 1)],
    ids=["same", "other"],
)
def test_two_dumps_are_compared(
    a: str, b: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(SAMPLES / a), str(SAMPLES / b), "--lang", "en"])
    assert (ended.value.code, capsys.readouterr().err) == (code, "")
