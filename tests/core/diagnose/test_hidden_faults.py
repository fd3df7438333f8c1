# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numcheck.diagnose import Incident, diagnose
from numcheck.measure import summarize
from numcheck.record import Site, TraceBuilder

if TYPE_CHECKING:
    from numcheck.diagnose import Finding

MAX = 65504.0


def step(
    given: float,
    made: float,
    *,
    family: Any = "mul",
    dtype: str = "float16",
    given_dtype: str = "float16",
    detail: tuple[tuple[str, str | float], ...] = (),
    op: str = "op",
    effect: Any = "compute",
    **settings: Any,
) -> tuple[Finding, ...]:
    """Diagnose a step of one operator that makes `made` of `given`, and a loss."""
    builder = TraceBuilder(step=4)
    source = Site(0, "input:x", "data", "source", "input", "move", dtype=given_dtype)
    builder.add(source, summarize(np.array([given, 1.0])))
    operator = Site(
        0, op, "forward", effect=effect, family=family, dtype=dtype, parents=(0,),
        detail=detail,
    )  # fmt: skip
    builder.add(operator, summarize(np.array([made, 1.0])))
    mean = Site(0, "mean", "forward", family="mean", dtype="float32", parents=(1,))
    builder.add(mean, summarize(np.array([made / 2])))
    loss = Site(0, "loss", "forward", "kept", "loss", "move", parents=(2,))
    builder.add(loss, summarize(np.array([made / 2])))
    return diagnose(Incident(builder.build(), 4, settings=settings))


def test_a_result_at_the_very_end_of_its_format_is_a_warning() -> None:
    (found,) = step(300.0, MAX)
    assert (found.id, found.severity, found.site.op) == ("N601", "warning", "op")
    assert [h.op for h in found.harm] == ["loss"]


def test_it_is_an_error_where_the_device_is_known_to_saturate() -> None:
    (found,) = step(300.0, MAX, overflow_mode="saturation")
    assert (found.id, found.severity) == ("N601", "error")


def test_it_is_nothing_where_the_device_keeps_inf() -> None:
    assert step(300.0, MAX, overflow_mode="inf_nan") == ()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"given": -MAX}, id="a mask of the largest number"),
        pytest.param({"detail": (("operand1", -MAX),)}, id="a largest number written"),
        pytest.param({"family": "select", "effect": "move"}, id="a clamp"),
        pytest.param({"effect": "fill"}, id="a constant"),
        pytest.param({"made": MAX - 32}, id="a number just below"),
        pytest.param({"dtype": "float8_e4m3fn", "made": 448.0}, id="a scaled float8"),
    ],
)
def test_the_largest_number_on_purpose_is_no_finding(change: dict[str, Any]) -> None:
    assert step(**{"given": 300.0, "made": MAX, **change}) == ()


def test_a_cast_from_beyond_the_format_is_found() -> None:
    (found,) = step(7e4, MAX, family="cast", given_dtype="float32", effect="cast")
    assert found.id == "N601"


@pytest.mark.parametrize(
    ("op", "family"),
    [("aten.sqrt.default", "sqrt"), ("log", "log"), ("aten.rsqrt_.default", "rsqrt")],
)
def test_a_zero_for_a_negative_operand_stands_for_a_nan(op: str, family: str) -> None:
    (found,) = step(-2.0, 0.0, family=family, op=op)
    assert (found.id, found.severity) == ("N601", "warning")
    assert "zero_for_nan" in {e.key for e in found.evidence}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"given": 0.0}, id="the root of zero"),
        pytest.param({"made": 1.5}, id="nothing is zero"),
        pytest.param({"op": "log1p", "family": "log"}, id="log1p has a value there"),
        pytest.param({"op": "cbrt"}, id="so has the cube root"),
        pytest.param({"overflow_mode": "inf_nan"}, id="the device keeps NaN"),
    ],
)
def test_other_zeros_are_no_finding(change: dict[str, Any]) -> None:
    given = {"given": -2.0, "made": 0.0, "family": "sqrt", "op": "sqrt"}
    assert step(**{**given, **change}) == ()


FLAG = (("overflow_flag", 1.0),)


def test_a_flag_speaks_for_a_nan_that_became_zero() -> None:
    (found,) = step(-1.0, 0.0, family="sqrt", detail=FLAG, overflow_mode="saturation")
    assert (found.id, found.severity) == ("N601", "error")
    stands_for = [e.fields["rule"] for e in found.evidence if e.key == "stands_for"]
    assert stands_for == ["N302"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"effect": "fill"}, id="a constant of -Inf"),
        pytest.param({"family": "select", "effect": "move"}, id="a mask filled in"),
        pytest.param({"family": "add", "given": -MAX}, id="scores and their mask"),
        pytest.param({"family": "add", "given": -np.inf}, id="scores and -Inf"),
    ],
)
def test_a_flag_that_speaks_of_a_mask_is_no_finding(change: dict[str, Any]) -> None:
    masked = {"given": 2.0, "made": -MAX, "detail": FLAG, **change}
    assert step(overflow_mode="saturation", **masked) == ()


def test_a_sum_beyond_the_end_is_a_finding_where_no_operand_was_there() -> None:
    given = {"given": 4e4, "made": MAX, "detail": FLAG, "family": "add"}
    (found,) = step(overflow_mode="saturation", **given)
    assert (found.id, found.severity) == ("N601", "error")


def test_a_flag_set_by_padding_is_a_note() -> None:
    detail = (*FLAG, ("padded_operand", 1.0))
    (found,) = step(2.0, 3.0, family="log", detail=detail, overflow_mode="saturation")
    assert (found.id, found.severity) == ("N606", "note")


def test_a_flag_that_no_operator_sets_is_a_note() -> None:
    settings = {"overflow_mode": "saturation", "overflow_flag": True}
    (found,) = step(2.0, 3.0, **settings)
    assert (found.id, found.severity) == ("N603", "note")


def test_a_status_register_is_an_error_without_any_values() -> None:
    detail = (
        ("overflow_status", 1024.0),
        ("overflow_unit", "AI Core"),
        ("overflow_reasons", "cube_accumulation"),
    )
    (found,) = step(2.0, 3.0, family="matmul", detail=detail)
    assert (found.id, found.severity) == ("N602", "error")
    assert "status_cube_accumulation" in [e.key for e in found.evidence]
    assert step(2.0, 3.0, family="matmul") == ()


def test_half_precision_is_noted_beside_a_finding_only() -> None:
    switches = {"hf32_matmul": True}
    plain = step(2.0, 3.0, family="matmul", dtype="float32", **switches)
    assert plain == ()
    found = step(
        2.0, np.inf, family="matmul", dtype="float32", given_dtype="float32", **switches
    )
    assert [f.id for f in found if f.severity == "note"] == ["N608"]
