# SPDX-License-Identifier: Apache-2.0
"""A step that breaks is noticed before the update, replayed, and explained."""

from __future__ import annotations

import copy
import io
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as fn

import numcheck_torch
from numcheck import NonFiniteError
from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.monitor import NumcheckWarning
from tests.torch.watch.loops import Breaks, inputs, square, train, watched


def test_failing_step_raises_before_the_update() -> None:
    model, optimizer, _ = watched()
    train(model, optimizer, bad_steps=(), steps=2)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(NonFiniteError) as caught:
        train(model, optimizer, bad_steps=(0,))
    assert caught.value.finding.site.op == "aten.log.default"
    assert caught.value.finding.step == 2
    assert caught.value.finding.reproduced is True
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("healthy", [0, 1, 2])
def test_each_failing_step_raises_again_for_whoever_catches_the_error(
    healthy: int,
) -> None:
    model, optimizer, monitor = watched()
    failing = []
    for _ in range(3):
        train(model, optimizer, bad_steps=(), steps=healthy)
        before = copy.deepcopy(model.state_dict())
        with pytest.raises(NonFiniteError) as caught:
            train(model, optimizer, bad_steps=(0,))
        failing.append(caught.value.finding.step)
        after = model.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)
    assert failing == [healthy + k * (healthy + 1) for k in range(3)]
    monitor.close()


def test_finding_names_the_line_and_the_harm() -> None:
    model, optimizer, monitor = watched(on_error="record")
    train(model, optimizer, bad_steps=(1,), steps=2)
    (finding,) = monitor.findings
    assert finding.site.source is not None
    assert "torch.log" in finding.site.source.text
    assert finding.harm[0].role == "loss"


def test_optimizer_is_found_without_being_named() -> None:
    model, optimizer, monitor = watched()
    with pytest.raises(NonFiniteError):
        train(model, optimizer, bad_steps=(0,))
    assert monitor.optimizers == (optimizer,)


def test_loss_outside_the_module_is_replayed() -> None:
    model, optimizer, _ = watched(nn.Linear(4, 3))

    def loss(out: torch.Tensor) -> torch.Tensor:
        return torch.log(out.relu().sum() * 0 + 0.0)  # the origin

    with pytest.raises(NonFiniteError) as caught:
        train(model, optimizer, bad_steps=(), loss_fn=loss)
    site = caught.value.finding.site
    assert site.op == "aten.log.default"
    assert site.source is not None
    assert "# the origin" in site.source.text


def test_target_with_nan_is_called_input_target() -> None:
    model, optimizer, _ = watched(nn.Linear(4, 1))
    target = torch.zeros(6, 1)
    target[3] = math.nan
    with pytest.raises(NonFiniteError) as caught:
        train(
            model, optimizer, bad_steps=(), loss_fn=lambda out: fn.mse_loss(out, target)
        )
    assert caught.value.finding.site.op == "input:target"
    assert caught.value.finding.phase == "data"


def test_warn_warns_and_goes_on() -> None:
    model, optimizer, _ = watched(on_error="warn")
    with pytest.warns(NumcheckWarning, match=r"aten\.log\.default"):
        train(model, optimizer, bad_steps=(3,))


def test_same_origin_is_counted_until_a_healthy_step_comes() -> None:
    model, optimizer, monitor = watched(on_error="record")
    optimizer.param_groups[0]["lr"] = 0.0
    with torch.no_grad():
        model.layer.weight.zero_()
    train_with_frozen_update(model, optimizer, (True, True, False, True))
    assert [f.count for f in monitor.findings] == [2, 1]
    assert [f.step for f in monitor.findings] == [0, 3]


def train_with_frozen_update(
    model: nn.Module, optimizer: torch.optim.Optimizer, bad: tuple[bool, ...]
) -> None:
    """Steps whose update cannot spread the NaN: only the last column trains."""
    for is_bad in bad:
        optimizer.zero_grad()
        square(model(inputs(bad=is_bad))).backward()
        for p in model.parameters():
            if not bool(torch.isfinite(p.grad).all()):
                p.requires_grad_()
        with torch.no_grad():
            saved = [p.clone() for p in model.parameters()]
        optimizer.step()
        with torch.no_grad():
            for p, value in zip(model.parameters(), saved, strict=True):
                p.copy_(value)


def test_skip_drops_the_update_and_training_goes_on() -> None:
    model, optimizer, monitor = watched(on_error="skip")
    train(model, optimizer, bad_steps=(), steps=1)
    before = copy.deepcopy(model.state_dict())
    optimizer.zero_grad()
    square(model(inputs(bad=True))).backward()
    gradient = model.layer.weight.grad
    with pytest.warns(NumcheckWarning):
        optimizer.step()
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert model.layer.weight.grad is gradient
    assert [e.value for e in monitor.events if e.name == "skipped"] == [1.0]
    train(model, optimizer, bad_steps=(), steps=2)
    assert not torch.equal(before["layer.weight"], model.layer.weight)
    assert bool(torch.isfinite(model.layer.weight).all())


@pytest.mark.parametrize("fused", [False, True])
def test_skip_counts_no_step_of_adam(fused: bool) -> None:
    model = Breaks()
    optimizer = torch.optim.Adam(model.parameters(), fused=fused)
    numcheck_torch.instrument(model, optimizer, on_error="skip")
    with pytest.warns(NumcheckWarning):
        train(model, optimizer, bad_steps=(1,), steps=3)
    assert optimizer.state[model.layer.weight]["step"] == 2


def test_loop_that_skips_a_bad_loss_itself_is_told_at_the_next_call() -> None:
    model, optimizer, monitor = watched(on_error="record")
    for step in range(3):
        optimizer.zero_grad()
        loss = square(model(inputs(bad=step == 1)))
        if not bool(torch.isfinite(loss)):
            continue
        loss.backward()
        optimizer.step()
    monitor.close()
    assert [(f.step, f.site.op) for f in monitor.findings] == [(1, "aten.log.default")]


def test_bad_last_loss_is_told_at_close() -> None:
    model, _, monitor = watched()
    loss = square(model(inputs(bad=True)))
    with pytest.raises(NonFiniteError):
        monitor.close()
    assert not bool(torch.isfinite(loss))


def test_pending_failure_is_told_at_exit() -> None:
    program = """
import torch, numcheck_torch
model = numcheck_torch.instrument(torch.nn.Linear(2, 1))
loss = torch.log(model(torch.ones(3, 2)) * 0).sum()
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "aten.log.default" in run.stderr


def test_evaluation_without_gradients_is_not_a_step() -> None:
    model, optimizer, monitor = watched()
    train(model, optimizer, bad_steps=(), steps=2)
    with torch.no_grad():
        model(inputs(bad=True))
    train(model, optimizer, bad_steps=(), steps=1)
    monitor.close()
    assert monitor.step == 3
    assert monitor.findings == ()


def test_evaluation_with_gradients_keeps_no_batches() -> None:
    model, _, monitor = watched()
    for _ in range(5):
        square(model(inputs()))
    assert len(monitor.program.forwards) <= 2


def test_an_argument_keeps_its_right_to_be_resized() -> None:
    model, optimizer, _ = watched(audit_first=False)
    x = inputs()
    square(model(x)).backward()
    optimizer.step()
    assert x.untyped_storage().resizable()


def test_batch_written_over_after_the_call_is_not_replayed() -> None:
    model, optimizer, monitor = watched(on_error="record")
    memory = inputs(bad=True).numpy()
    loss = square(model(torch.from_numpy(memory)))
    loss.backward()
    memory[...] = np.float32(2)
    optimizer.step()
    assert monitor.findings
    assert monitor.findings[0].reproduced is None
    notes = [str(e.value) for e in monitor.events if e.name == "note"]
    assert any("overwritten" in note for note in notes)


def test_finite_gradient_with_infinite_norm_is_healthy() -> None:
    model, optimizer, monitor = watched(nn.Linear(4, 1, bias=False), audit_first=False)
    optimizer.param_groups[0]["lr"] = 0.0
    x = torch.full((1, 4), 1e20)
    (model(x) * 1e5).sum().backward()
    assert torch.linalg.vector_norm(model.weight.grad) == math.inf
    optimizer.step()
    monitor.close()
    assert monitor.findings == ()


def test_clipping_by_an_infinite_norm_blames_the_operator_not_the_clip() -> None:
    model, optimizer, monitor = watched(on_error="record")
    square(model(inputs(bad=True))).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    assert monitor.findings[0].site.op == "aten.log.default"


def test_closure_is_looked_at_before_its_gradients_are_used() -> None:
    torch.manual_seed(0)
    model = Breaks()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    numcheck_torch.instrument(model)
    before = copy.deepcopy(model.state_dict())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = square(model(inputs(bad=True)))
        loss.backward()
        return loss

    with pytest.raises(NonFiniteError):
        optimizer.step(closure)
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


class TrustRatio(torch.optim.Optimizer):
    """Scales each gradient to its weight's norm, and divides by a zero norm."""

    def __init__(self, parameters: object) -> None:
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                ratio = p.norm() / p.grad.norm()
                p.sub_(p.grad * ratio * group["lr"])


@pytest.mark.parametrize("last", [False, True], ids=["next step", "close"])
def test_update_that_ruins_a_weight_is_the_origin(last: bool) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = TrustRatio(model.parameters())
    numcheck_torch.instrument(model, on_error="record")
    for step in range(3 if last else 4):
        optimizer.zero_grad()
        # At step 2 the gradients are exactly zero: 1/0 is Inf, and 0 * Inf is NaN.
        (square(model(inputs())) * float(step != 2)).backward()
        optimizer.step()
    model.numcheck.close()
    finding = model.numcheck.findings[0]
    assert (finding.step, finding.phase) == (2, "optimizer")
    assert finding.site.op == "aten.div.Tensor"
    assert finding.harm[0].op in ("parameter:weight", "parameter:bias")


def test_error_in_the_replay_does_not_hide_the_failure() -> None:
    calls = []

    class OnlyOnce(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            if len(calls) > 1:
                raise MemoryError
            return self.layer(x) * math.inf

    model, optimizer, monitor = watched(OnlyOnce(), on_error="record")
    square(model(inputs())).backward()
    optimizer.step()
    assert monitor.findings[0].reproduced is None
    assert monitor.findings[0].harm[0].op == "loss"


def test_accumulated_micro_batches_are_replayed_together() -> None:
    model, optimizer, _ = watched()
    for part in range(3):
        square(model(inputs(bad=part == 1))).backward()
    with pytest.raises(NonFiniteError) as caught:
        optimizer.step()
    assert caught.value.finding.site.op == "aten.log.default"
    assert caught.value.finding.step == 0


def test_copies_and_pickles_are_plain() -> None:
    model, _, monitor = watched()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert not hasattr(other, "numcheck")
        assert not other._forward_hooks
        assert not other._forward_pre_hooks
        assert other.state_dict().keys() == model.state_dict().keys()
    shallow = copy.copy(model)
    square(shallow(inputs(bad=True))).backward()
    assert monitor.program.events == []


def test_saved_module_loads_plain() -> None:
    model, _, _ = watched()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    other = torch.load(file, weights_only=False)
    assert torch.equal(other(inputs()), model(inputs()))
    assert not hasattr(other, "numcheck")


def test_closed_monitor_leaves_nothing_behind() -> None:
    program = """
import torch, numcheck_torch
doors = lambda: (
    torch.autograd._engine_run_backward, torch.compile, torch.amp.GradScaler.update,
    torch.nn.utils.clip_grad._clip_grads_with_norm_,
)
before = doors()
model = numcheck_torch.instrument(torch.nn.Linear(2, 1))
assert all(new is not old for new, old in zip(doors(), before))
model.numcheck.close()
model.numcheck.close()
assert doors() == before
assert not model._forward_hooks and not model._forward_pre_hooks
numcheck_torch.instrument(torch.nn.Linear(2, 1))
import gc; gc.collect()
torch.ones(1, requires_grad=True).sum().backward()
assert doors() == before, "a forgotten module must not keep PyTorch wrapped"
from torch.optim.optimizer import _global_optimizer_pre_hooks as hooks
numcheck_torch.instrument(torch.nn.Linear(2, 1)).numcheck.close()
assert not hooks
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_error_of_the_program_is_not_replaced_by_a_finding() -> None:
    model, _, monitor = watched()
    loss = square(model(inputs(bad=True)))

    def loop() -> None:
        with monitor:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        loop()
    assert not math.isfinite(loss.item())
    assert "aten.log.default" in str(caught.value.__notes__)


def test_error_inside_numcheck_does_not_stop_the_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, optimizer, monitor = watched()
    monkeypatch.setattr("numcheck_torch.looking.at_a_glance", lambda *_a, **_k: 1 / 0)
    train(model, optimizer, bad_steps=(), steps=2)
    assert "N901" in capsys.readouterr().err
    assert [e.value for e in monitor.events if e.name == "fault"] == [
        "fault.before_update"
    ]


def test_exception_in_the_module_leaves_the_watch_intact() -> None:
    model, optimizer, _ = watched()
    with pytest.raises(RuntimeError):
        model(torch.zeros(2, 9))
    with pytest.raises(NonFiniteError):
        train(model, optimizer, bad_steps=(0,))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"model": 3}, ArgumentTypeError),
        ({"optimizer": "adam"}, ArgumentTypeError),
        ({"level": "loud"}, ArgumentError),
        ({"every": 0}, ArgumentError),
    ],
    ids=["model", "optimizer", "level", "every"],
)
def test_wrong_argument_is_named(
    arguments: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(arguments))):
        numcheck_torch.instrument(**{"model": nn.Linear(1, 1), **arguments})
