# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import torch

import numcheck_torch
from tests.torch.npu import programs
from tests.torch.npu.device import CHIP, chip
from tests.torch.npu.programs import STEPS, Attends, Roots, Squares, first, train

if TYPE_CHECKING:
    from collections.abc import Callable

SATURATING = {"soc": 104, "saturates": True}


def test_an_overflow_is_explained_where_inf_is_kept() -> None:
    found = first(train(Squares(), large=900.0))
    assert (found.id, found.site.op) == ("N101", "aten.mul.Tensor")
    assert found.cause is not None
    assert (found.cause.cls, found.cause.certainty) == ("precision", "certain")


def test_the_same_overflow_is_named_where_no_nan_ever_appears() -> None:
    with chip(**SATURATING):
        monitor = train(Squares(), large=900.0)
    found = first(monitor)
    assert (found.id, found.site.op) == ("N601", "aten.mul.Tensor")
    assert (found.severity, found.step) == ("error", STEPS - 1)
    assert found.cause is not None
    assert (found.cause.cls, found.cause.certainty) == ("precision", "certain")
    assert "loss" in [h.op for h in found.harm]
    assert {"saturated", "overflow_flag"} <= {e.key for e in found.evidence}
    assert monitor.trace is not None
    for held in monitor.trace.summaries.values():
        assert all(s.is_finite is not False for s in held.values())


def test_a_nan_that_became_zero_is_named_too() -> None:
    with chip(**SATURATING):
        found = first(train(Roots(), large=900.0))
    assert (found.id, found.site.op) == ("N601", "aten.sqrt.default")
    assert found.cause is not None
    assert found.cause.cls == "op-domain"
    stands_for = {e.fields.get("rule") for e in found.evidence}
    assert "N302" in stands_for


def test_bfloat16_is_not_advised_to_a_chip_without_it() -> None:
    with chip(**SATURATING):
        found = first(train(Squares(), large=900.0))
    assert "bfloat16" not in [h.key for h in found.help]


@pytest.mark.parametrize("facts", [{}, SATURATING], ids=["inf_nan", "saturation"])
def test_healthy_training_has_no_error(facts: dict[str, object]) -> None:
    with chip(**facts):
        monitor = train(Squares())
    assert [f.id for f in monitor.findings if f.severity == "error"] == []


def test_results_are_those_of_the_unwatched_program() -> None:
    def weights(*, watched: bool) -> list[torch.Tensor]:
        model = Squares()
        if watched:
            train(model)
        else:
            torch.manual_seed(0)
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, 0.0, 0.3)
            model.to("npu", torch.float16)
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
            for _ in range(STEPS):
                x = torch.randn(4, 8).to("npu", torch.float16)
                model(x).float().square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        return [p.detach().cpu() for p in model.parameters()]

    for a, b in zip(weights(watched=True), weights(watched=False), strict=True):
        assert torch.equal(a, b)


def test_nothing_runs_that_has_no_kernel_or_needs_float64() -> None:
    train(Squares(), large=900.0)
    assert CHIP.forbidden == []
    train(Squares(), level="trace", every=1)
    assert CHIP.forbidden == []


@pytest.mark.parametrize(("facts", "waits"), [({}, 1), (SATURATING, 2)])
def test_a_watched_step_waits_once_and_once_more_for_the_flag(
    facts: dict[str, object], waits: int
) -> None:
    seen: list[int] = []
    with chip(**facts):
        train(Squares(), before_each=lambda: seen.append(CHIP.waits), audit_first=False)
    assert seen[2] - seen[1] == waits


def test_a_flag_that_no_operator_sets_is_a_note() -> None:
    def disturb() -> None:
        CHIP.late = True

    with chip(**SATURATING):
        monitor = train(Squares(), before_last=disturb)
    ids = [(f.id, f.severity) for f in monitor.findings]
    assert ("N603", "note") in ids
    assert not any(severity == "error" for _, severity in ids)


class Masks(Squares):
    """Hides keys with -Inf, which such a device cannot hold: the flag speaks of it."""

    def __init__(self, called: Callable[[], object]) -> None:
        super().__init__()
        self.called = called

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.called()
        h = self.up(x)
        hidden = torch.zeros(4, 16, dtype=torch.bool, device=h.device)
        hidden[:, 3:] = True
        return self.down(torch.softmax(h.masked_fill(hidden, float("-inf")), -1))


def test_masks_that_set_the_flag_at_every_step_are_replayed_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs, "STEPS", 12)
    calls = itertools.count()
    with chip(**SATURATING):
        monitor = train(Masks(calls.__next__), audit_first=False)
    assert monitor.findings == ()
    # Replays of steps 0, 1, 2, 4 and 8.
    assert next(calls) == 12 + 5


def test_saturation_by_choice_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INF_NAN_MODE_FORCE_DISABLE", "1")
    with chip(soc=220, saturates=True):
        monitor = train(Squares())
    assert ("N607", "warning") in [(f.id, f.severity) for f in monitor.findings]


def test_a_kernel_that_differs_from_the_cpu_is_a_fault_of_the_hardware() -> None:
    def corrupt() -> None:
        CHIP.corrupts = "aten::relu"

    monitor = train(Squares(), dtype=torch.float32, before_last=corrupt)
    found = first(monitor)
    assert found.site.op == "aten.relu.default"
    assert found.cause is not None
    assert (found.cause.cls, found.cause.rule) == ("hardware", "N653")


def test_a_fault_of_the_formula_fails_on_the_cpu_too() -> None:
    monitor = train(Roots(), large=900.0, dtype=torch.float32)
    found = first(monitor)
    assert found.cause is not None
    assert found.cause.cls != "hardware"
    assert "operator_on_cpu_failed" in {e.key for e in found.evidence}


def test_a_mask_upside_down_is_told_from_hidden_rows() -> None:
    keep = torch.ones(6, 6, dtype=torch.bool).tril()
    found = first(train(Attends(keep), dtype=torch.float32, shape=(2, 6, 8)))
    assert found.id == "N604"
    assert found.site.family == "attention"
    hidden = torch.zeros(6, 6, dtype=torch.bool)
    hidden[4] = True
    found = first(train(Attends(hidden), dtype=torch.float32, shape=(2, 6, 8)))
    assert (found.id, found.cause and found.cause.rule) == ("N605", "N353")


def test_the_causal_mask_of_the_right_polarity_is_no_finding() -> None:
    hide = torch.ones(6, 6, dtype=torch.bool).triu(1)
    monitor = train(Attends(hide), dtype=torch.float32, shape=(2, 6, 8))
    assert [f for f in monitor.findings if f.severity != "note"] == []


def test_a_failure_that_does_not_repeat_suspects_a_race() -> None:
    # Not on the module, whose state a replay puts back.
    calls = itertools.count(1)

    class Once(Squares):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = super().forward(x)
            if next(calls) == STEPS:
                out = out + float("nan")
            return out

    found = first(train(Once(), audit_first=False))
    assert found.id in ("N902", "N903")
    assert found.reproduced is False
    assert found.cause is not None
    assert (found.cause.rule, found.cause.certainty) == ("N652", "possible")


@pytest.mark.parametrize("facts", [{}, SATURATING], ids=["inf_nan", "saturation"])
def test_a_loss_scale_does_not_hide_an_overflow_of_the_forward_run(
    facts: dict[str, object],
) -> None:
    with chip(**facts):
        torch.manual_seed(0)
        model = Squares().to("npu")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        scaler = torch.amp.GradScaler("npu", init_scale=2.0**14)
        watched = numcheck_torch.instrument(model, optimizer, scaler, on_error="record")
        for _ in range(8):
            x = (torch.randn(4, 8) * 900).to("npu")
            with torch.autocast("npu", dtype=torch.float16):
                loss = watched(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        watched.numcheck.close()
    assert first(watched.numcheck).site.op == "aten.mul.Tensor"


def test_a_loss_scale_that_fits_is_no_finding_in_saturation_mode() -> None:
    with chip(**SATURATING):
        torch.manual_seed(0)
        model = Squares().to("npu")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        scaler = torch.amp.GradScaler("npu", init_scale=2.0**40)
        watched = numcheck_torch.instrument(model, optimizer, scaler, on_error="record")
        for _ in range(3):
            with torch.autocast("npu", dtype=torch.float16):
                loss = watched(torch.randn(4, 8).to("npu")).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        watched.numcheck.close()
    assert [f.id for f in watched.numcheck.findings if f.severity == "error"] == []
