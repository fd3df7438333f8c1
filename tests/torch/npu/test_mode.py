# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import enum

import pytest
import torch

from numcheck_torch import npu
from numcheck_torch.npu.mode import contradiction, default_mode
from tests.torch.npu.device import chip
from tests.torch.npu.programs import Squares, train

OFF = {"INF_NAN_MODE_ENABLE": "0"}
FORCED = {"INF_NAN_MODE_FORCE_DISABLE": "1"}
ON = {"INF_NAN_MODE_ENABLE": "1"}


@pytest.mark.parametrize(
    ("soc", "environment", "mode", "wrong"),
    [
        pytest.param(104, {}, "saturation", None, id="910B"),
        pytest.param(104, ON, "saturation", "chip_saturates_only", id="910B-asked"),
        pytest.param(202, {}, "saturation", None, id="310P"),
        pytest.param(220, {}, "inf_nan", None, id="A2"),
        pytest.param(225, FORCED, "saturation", "saturation_by_choice", id="A2-forced"),
        pytest.param(220, OFF, "saturation", "disabled_without_force", id="A2-half"),
        pytest.param(252, {}, "inf_nan", None, id="A3"),
        pytest.param(241, {}, "saturation", None, id="310B"),
        pytest.param(241, ON, "saturation", "chip_saturates_only", id="310B-asked"),
        pytest.param(241, FORCED, "saturation", None, id="310B-forced"),
        pytest.param(260, {}, "inf_nan", None, id="950"),
        pytest.param(260, FORCED, "inf_nan", "chip_never_saturates", id="950-forced"),
    ],
)
def test_chip_and_environment_decide_the_mode(
    soc: int, environment: dict[str, str], mode: str, wrong: str | None
) -> None:
    assert default_mode(soc, environment) == mode
    assert contradiction(soc, environment) == wrong


def test_torch_npu_s_own_answer_wins() -> None:
    with chip(soc=220, saturates=True):
        assert npu.mode() == "saturation"
    assert npu.mode() == "inf_nan"


def test_without_that_answer_the_chip_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(type(torch.npu.utils), "is_support_inf_nan")
    with chip(soc=104):
        assert npu.mode() == "saturation"


def test_facts_name_chip_mode_and_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INF_NAN_MODE_FORCE_DISABLE", "1")
    with chip(soc=220, saturates=True):
        facts = npu.device_facts(torch.device("npu"))
    assert facts == {
        "chip": "Ascend910B1",
        "overflow_mode": "saturation",
        "mode_contradiction": "saturation_by_choice",
        "hf32_conv": True,
        "hf32_matmul": False,
        "bfloat16_supported": True,
    }


def test_the_precision_that_products_were_told_is_a_fact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = enum.IntEnum("CubeMathType", {"USE_FP16": 2})
    monkeypatch.setattr(torch.npu.matmul, "cube_math_type", told(2), raising=False)
    facts = npu.device_facts(torch.device("npu"))
    assert facts["cube_math_type"] == "USE_FP16"


def test_other_devices_have_no_such_facts() -> None:
    assert npu.device_facts(torch.device("cpu")) == {}


def test_a_reduction_that_loses_a_nan_is_found_when_training_starts() -> None:
    with chip(blind="aten::amax"):
        assert npu.blind_reductions("npu") == ("amax",)
        monitor = train(Squares())
    notes = [str(e.value) for e in monitor.events if e.name == "note"]
    assert any("amax" in note for note in notes)


def test_reductions_show_a_nan_in_one_mode_only() -> None:
    assert npu.blind_reductions("npu") == ()
    with chip(soc=104, saturates=True):
        assert "amax" in npu.blind_reductions("npu")
