# SPDX-License-Identifier: Apache-2.0
"""Each finding about the device, from a training that has the fault and one without."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from tests.torch.npu import kernels
from tests.torch.npu.device import CHIP, chip
from tests.torch.npu.programs import Attends, Roots, Squares, first, train

SATURATING = {"soc": 104, "saturates": True}
RELU = "aten::relu"


def ids(monitor: Any) -> list[str]:
    return [f.id for f in monitor.findings]


@pytest.mark.parametrize(
    ("soc", "saturates", "name", "value", "wrong"),
    [
        (104, True, "INF_NAN_MODE_ENABLE", "1", "chip_saturates_only"),
        (220, True, "INF_NAN_MODE_FORCE_DISABLE", "1", "saturation_by_choice"),
        (220, True, "INF_NAN_MODE_ENABLE", "0", "disabled_without_force"),
        (260, False, "INF_NAN_MODE_FORCE_DISABLE", "1", "chip_never_saturates"),
    ],
)
def test_a_mode_against_the_chip_is_warned_of(
    soc: int,
    *,
    saturates: bool,
    name: str,
    value: str,
    wrong: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(name, value)
    with chip(soc=soc, saturates=saturates):
        monitor = train(Squares())
    (found,) = (f for f in monitor.findings if f.id == "N607")
    assert found.severity == "warning"
    assert [e.key for e in found.evidence] == [wrong]


@pytest.mark.parametrize("soc", [104, 220, 260])
def test_the_mode_a_chip_comes_with_is_no_finding(soc: int) -> None:
    with chip(soc=soc, saturates=soc == 104):
        assert ids(train(Squares())) == []


class Convolves(Roots):
    """Takes a root of what a convolution gives, negative for large inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Conv1d(1, 2, 1)  # type: ignore[assignment]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x[:, None]).flatten(1)
        return self.down(torch.sqrt(20 - h.abs()))


@pytest.mark.parametrize("is_on", [True, False], ids=["hf32", "float32"])
def test_hf32_is_told_beside_a_finding_where_it_is_on(
    *, is_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.npu.conv, "allow_hf32", is_on)
    monitor = train(Convolves(), large=900.0, dtype=torch.float32)
    assert first(monitor).site.op == "aten.sqrt.default"
    assert ("N608" in ids(monitor)) == is_on
    assert "N608" not in ids(train(Convolves(), dtype=torch.float32))


@pytest.fixture
def _nz_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets matrices as wide as the hidden layer lie in FRACTAL_NZ."""
    fake: Any = types.ModuleType("torch_npu")
    fake.npu = torch.npu
    fake.get_npu_format = lambda t: 29 if t.shape[-1:] == (16,) else 2
    monkeypatch.setitem(sys.modules, "torch_npu", fake)


@pytest.mark.usefixtures("_nz_weights")
def test_a_flag_set_by_padding_is_a_note() -> None:
    with chip(**SATURATING):
        monitor = train(Squares(), before_last=lambda: setattr(CHIP, "pads", RELU))
    assert [(f.id, f.severity) for f in monitor.findings] == [("N606", "note")]


def test_the_same_flag_without_padding_is_an_overflow() -> None:
    with chip(**SATURATING):
        monitor = train(Squares(), before_last=lambda: setattr(CHIP, "pads", RELU))
    assert (first(monitor).id, first(monitor).severity) == ("N601", "error")
    assert first(monitor).site.op == "aten.relu.default"


def test_a_race_that_waiting_after_each_operator_heals_is_told_as_one() -> None:
    monitor = train(
        Squares(),
        dtype=torch.float32,
        before_last=lambda: setattr(CHIP, "races", RELU),
    )
    found = first(monitor)
    assert found.site.op == "aten.relu.default"
    assert found.cause is not None
    assert (found.cause.cls, found.cause.rule) == ("hardware", "N652")
    assert found.cause.certainty == "likely"
    assert "synchronous_healthy" in {e.key for e in found.evidence}
    assert "launch_blocking" in [h.key for h in found.help]


def test_a_faulty_kernel_is_no_race() -> None:
    monitor = train(
        Squares(),
        dtype=torch.float32,
        before_last=lambda: setattr(CHIP, "corrupts", RELU),
    )
    found = first(monitor)
    assert found.cause is not None
    assert found.cause.rule == "N653"
    assert "synchronous_failed" in {e.key for e in found.evidence}


def test_a_stale_flag_read_by_somebody_else_is_said_so() -> None:
    def disturb() -> None:
        CHIP.late = True
        torch.npu.clear_npu_overflow_flag()

    with chip(**SATURATING):
        monitor = train(Squares(), before_last=disturb)
    (note,) = (f for f in monitor.findings if f.id == "N603")
    assert [e.key for e in note.evidence] == ["flag_without_operator"]


def test_a_flag_that_stays_clear_is_no_finding() -> None:
    with chip(**SATURATING):
        assert ids(train(Squares())) == []


def test_operands_that_went_bad_after_they_were_made_were_overwritten() -> None:
    monitor = train(
        Squares(),
        dtype=torch.float32,
        before_last=lambda: setattr(CHIP, "overwrites", "aten::mul"),
    )
    found = first(monitor)
    assert found.site.op == "aten.relu.default"
    assert found.cause is not None
    assert (found.cause.cls, found.cause.rule) == ("hardware", "N655")


def test_operands_that_were_bad_when_made_were_not() -> None:
    found = first(train(Roots(), large=900.0, dtype=torch.float32))
    assert found.cause is not None
    assert found.cause.rule != "N655"


CAUSAL = torch.ones(6, 6, dtype=torch.bool).triu(1)
PADDED = torch.zeros(6, 6, dtype=torch.bool)
PADDED[4:] = True


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        pytest.param(~CAUSAL, ["mask_upside_down", "mask_hidden_rows"], id="polarity"),
        pytest.param(PADDED, ["mask_hidden_rows"], id="rows that see nothing"),
    ],
)
def test_a_mask_that_hides_rows_is_noted_where_the_kernel_gives_numbers(
    mask: torch.Tensor, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "HIDDEN", -1e4)
    monitor = train(Attends(mask), dtype=torch.float32, shape=(2, 6, 8))
    (note,) = monitor.findings
    assert (note.id, note.severity, note.site.family) == ("N609", "note", "attention")
    assert [e.key for e in note.evidence] == told


def test_a_mask_that_leaves_every_row_a_key_is_not_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "HIDDEN", -1e4)
    monitor = train(Attends(CAUSAL), dtype=torch.float32, shape=(2, 6, 8))
    assert ids(monitor) == []
