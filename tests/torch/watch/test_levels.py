# SPDX-License-Identifier: Apache-2.0
"""Auditing, recording every step, compiled modules, scalers, several optimizers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn import functional as fn

import numcheck_torch
from numcheck import NonFiniteError
from tests.torch.identity.programs import Adversaries, build
from tests.torch.watch.loops import Breaks, inputs, square, train, watched

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# --- auditing ---


class Flushes(nn.Module):
    """Loses its gradient in float16: nothing is NaN, nothing moves."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def flush(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 2) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(inputs())
        (out.float().square().mean() * 1e-8).backward()
        optimizer.step()


def test_audit_of_the_first_step_sees_a_flushed_gradient() -> None:
    model, optimizer, _ = watched(Flushes())
    with pytest.raises(NonFiniteError) as caught:
        flush(model, optimizer)
    assert caught.value.finding.id == "N201"
    assert caught.value.finding.step == 0
    # Though the error keeps the model alive, nobody goes on with its step.
    with pytest.raises(NonFiniteError, match="by hand"):
        numcheck_torch.check_numerics(torch.tensor([math.inf]), "by hand")


def test_without_audit_a_flushed_gradient_passes() -> None:
    model, optimizer, monitor = watched(Flushes(), audit_first=False)
    flush(model, optimizer)
    assert monitor.findings == ()


def test_every_n_audits_every_nth_step() -> None:
    model, optimizer, monitor = watched(audit_first=False, every=3)
    train(model, optimizer, bad_steps=(), steps=7)
    assert monitor.trace is not None
    assert monitor.trace.steps == (0, 3, 6)


def test_audit_records_the_update_without_making_it() -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    numcheck_torch.instrument(model)
    train(model, optimizer, bad_steps=(), steps=1)
    trace = model.numcheck.trace
    updated = [s for s in trace.sites if s.op == "parameter:weight"]
    assert [s.kind for s in updated][-1] == "kept"
    assert any(s.phase == "optimizer" and s.kind == "operator" for s in trace.sites)
    seen = trace.at(0).summary(updated[-1])
    # Adam's first step is the learning rate in every weight.
    before = trace.at(0).summary(updated[0])
    assert abs(seen.total - before.total) <= 4 * 0.1 + 1e-6
    assert seen.high == model.weight.max().item()


# --- recording every step ---


def test_trace_level_records_every_step_of_the_program_itself() -> None:
    model, optimizer, monitor = watched(level="trace", audit_first=False)
    train(model, optimizer, bad_steps=(), steps=3)
    assert monitor.trace.steps == (0, 1, 2)
    phases = {s.phase for s in monitor.trace.sites}
    assert {"forward", "backward", "optimizer"} <= phases
    ops = {s.op for s in monitor.trace.sites}
    assert {
        "input:input",
        "loss",
        "gradient:layer.weight",
        "parameter:layer.weight",
    } < ops
    assert "aten.log.default" in ops


def test_trace_level_names_the_targets_of_the_loss() -> None:
    model, optimizer, monitor = watched(
        nn.Linear(4, 3), level="trace", audit_first=False
    )
    with monitor:
        for _ in range(3):
            labels = torch.tensor([[0, 1], [2, 0], [1, 1]])
            optimizer.zero_grad()
            fn.cross_entropy(model(inputs()), labels.flatten()).backward()
            optimizer.step()
    assert monitor.trace.steps == (0, 1, 2)
    targets = [s for s in monitor.trace.sites if s.op == "input:target"]
    assert {(s.kind, s.role, s.phase) for s in targets} == {
        ("source", "target", "data")
    }
    ops = {s.op for s in monitor.trace.sites}
    assert "constant" not in ops
    # What the monitor itself computes is no part of the step.
    assert not any("norm" in op for op in ops)


def test_looking_at_a_failing_step_is_no_part_of_its_record() -> None:
    model, optimizer, monitor = watched(level="trace", on_error="record")
    train(model, optimizer, bad_steps=(1, 2), steps=4)
    monitor.close()
    assert [e for e in monitor.events if e.name == "fault"] == []
    trace = monitor.trace
    recorded = [
        {trace.sites[i].op for i in trace.summaries[step, 0]} for step in range(4)
    ]
    assert recorded[1] <= recorded[0]
    assert recorded[2] <= recorded[0]


def test_trace_level_trips_like_watch_level() -> None:
    model, optimizer, monitor = watched(level="trace")
    with pytest.raises(NonFiniteError) as caught:
        train(model, optimizer, bad_steps=(2,))
    assert caught.value.finding.site.op == "aten.log.default"
    assert monitor.trace.steps == (0, 1, 2)


@pytest.mark.parametrize("name", ["MLP", "transformer with dropout"])
def test_trace_level_changes_no_result(name: str) -> None:
    results = []
    for level in ("watch", "trace"):
        program = build(name)
        numcheck_torch.instrument(program.model, level=level, audit_first=False)
        torch.manual_seed(5)
        losses = []
        for step in range(3):
            losses.append(program.compute(program.model, step))
            program.update()
        program.model.numcheck.close()
        results.append((losses, list(program.model.state_dict().values())))
    (a, b), (c, d) = results
    assert all(torch.equal(x, y) for x, y in zip([*a, *b], [*c, *d], strict=True))


# --- compiled modules ---


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("order", ["instrument first", "compile first", "in place"])
def test_compiled_module_is_watched_and_stays_compiled(order: str) -> None:
    model = Breaks()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    graphs: list[int] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(1)

        def run(*arguments: torch.Tensor) -> object:
            graphs.append(2)
            return graph.forward(*arguments)

        return run

    if order == "compile first":
        called = torch.compile(model, backend=backend, fullgraph=True)
        watched_model = numcheck_torch.instrument(called)
    else:
        watched_model = numcheck_torch.instrument(model)
        called = model
        if order == "in place":
            model.compile(backend=backend, fullgraph=True)
        else:
            called = torch.compile(model, backend=backend, fullgraph=True)
    with pytest.raises(NonFiniteError) as caught:
        train(called, optimizer, bad_steps=(2,))
    assert caught.value.finding.site.op == "aten.log.default"
    assert caught.value.finding.step == 2
    assert graphs.count(1) == 1
    assert graphs.count(2) == 3
    assert watched_model.numcheck.findings


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_results_are_the_plain_ones() -> None:
    results = []
    for is_watched in (False, True):
        torch._dynamo.reset()
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters())
        called = torch.compile(model, backend="aot_eager")
        if is_watched:
            numcheck_torch.instrument(called)
        train(called, optimizer, bad_steps=())
        results.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_compiled_loss_is_replayed_when_watched() -> None:
    model, optimizer, monitor = watched(nn.Linear(4, 1))

    @torch.compile(backend="eager")
    def compiled(out: torch.Tensor) -> torch.Tensor:
        return torch.log(out.relu().sum() * 0)

    loss_fn = monitor.watch(compiled)
    with pytest.raises(NonFiniteError) as caught:
        train(model, optimizer, bad_steps=(), loss_fn=loss_fn)
    assert caught.value.finding.reproduced is True


class Hidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, out: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(out)
        return out.square().sum()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        (out,) = ctx.saved_tensors
        return 2 * gradient * out


def test_loss_the_tape_cannot_follow_still_gives_the_module_s_origin() -> None:
    model, optimizer, monitor = watched(on_error="record")
    train(model, optimizer, bad_steps=(), loss_fn=Hidden.apply)
    optimizer.zero_grad()
    Hidden.apply(model(inputs(bad=True))).backward()
    expected = model.layer.weight.grad.clone()
    laboratory = monitor.laboratory(with_update=False)
    laboratory.replay()
    found = laboratory.outcomes.gradients["layer.weight"]
    assert torch.equal(found.nan_to_num(), expected.nan_to_num())
    optimizer.step()
    assert "aten.log.default" in [f.site.op for f in monitor.findings]


def test_engine_run_of_another_model_does_not_end_the_loss() -> None:
    model, optimizer, monitor = watched(on_error="record")
    other = nn.Linear(4, 1)
    out = model(inputs(bad=True))
    other(inputs()).sum().backward()
    square(out).backward()
    optimizer.step()
    assert [f.site.op for f in monitor.findings] == ["aten.log.default"]
    assert monitor.findings[0].reproduced is True


def test_step_of_another_watched_model_is_not_mistaken_for_one_s_own() -> None:
    first, _, waiting = watched(on_error="record")
    square(first(inputs()))
    model, optimizer, monitor = watched(on_error="record")
    train(model, optimizer, bad_steps=(1,), steps=2)
    assert waiting.findings == ()
    assert len(waiting.program.events) < 6
    assert [f.reproduced for f in monitor.findings] == [True]
    waiting.close()


def test_other_model_s_score_of_real_data_is_a_constant_to_the_replay() -> None:
    generator, optimizer, monitor = watched(nn.Linear(4, 4), audit_first=False)
    critic = nn.Linear(4, 1)
    fake = critic(generator(inputs())).mean()
    loss = fake - critic(inputs()).mean()
    loss.backward()
    laboratory = monitor.laboratory(with_update=False)
    laboratory.replay()
    found = laboratory.outcomes
    assert torch.equal(found.losses[0], loss)
    assert torch.equal(found.gradients["weight"], generator.weight.grad)
    optimizer.step()


def test_penalty_on_the_weights_is_replayed() -> None:
    model, optimizer, monitor = watched(nn.Linear(4, 1), audit_first=False)
    penalty = sum(p.square().sum() for p in model.parameters())
    loss = square(model(inputs())) + 0.1 * sum(
        p.square().sum() for p in model.parameters()
    )
    (loss + penalty.detach()).backward()
    laboratory = monitor.laboratory(with_update=False)
    laboratory.replay()
    assert torch.equal(laboratory.outcomes.gradients["weight"], model.weight.grad)
    optimizer.step()


# --- gradient scalers ---


def scaled(
    model: nn.Module, scaler: torch.amp.GradScaler, *, bad: int = -1, steps: int = 6
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = square(model(inputs(bad=step == bad)).float())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def test_search_for_a_loss_scale_is_no_fault() -> None:
    model = numcheck_torch.instrument(nn.Linear(4, 3))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**19)
    with model.numcheck as monitor:
        scaled(model, scaler)
    skipped = [e.step for e in monitor.events if e.name == "skipped"]
    assert skipped[:2] == [0, 1]
    assert len(skipped) < 6
    assert monitor.findings == ()
    assert monitor.step == 6


def test_fault_behind_a_loss_scale_is_found() -> None:
    model = numcheck_torch.instrument(Breaks())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    with pytest.raises(NonFiniteError) as caught:
        scaled(model, scaler, bad=3)
    assert caught.value.finding.site.op == "aten.log.default"
    assert caught.value.finding.step == 3


class LosesSlope(nn.Module):
    """Its loss is finite, its gradient never is."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + (self.layer.weight * 0).square().sum().sqrt()


def test_gradient_that_no_scale_can_save_is_found() -> None:
    model = numcheck_torch.instrument(LosesSlope())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    with pytest.raises(NonFiniteError) as caught:
        scaled(model, scaler, steps=12)
    assert caught.value.finding.phase == "backward"
    assert caught.value.finding.step == 0


def test_loss_in_the_history_is_without_its_scale() -> None:
    model = numcheck_torch.instrument(nn.Linear(4, 3))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    with model.numcheck as monitor:
        scaled(model, scaler, steps=2)
    losses = [e.value for e in monitor.events if e.name == "loss"]
    assert len(losses) == 2
    assert all(0 < loss < 10 for loss in losses)


# --- several optimizers, several calls ---


def test_steps_are_counted_by_turns_of_the_loop() -> None:
    model = Adversaries()
    first = torch.optim.Adam(model.generator.parameters())
    second = torch.optim.Adam(model.critic.parameters())
    numcheck_torch.instrument(model)
    for turn in range(3):
        for optimizer, sign in ((second, 1.0), (first, -1.0)):
            optimizer.zero_grad()
            fake, real = model(torch.randn(6, 4), torch.randn(6, 5))
            loss = sign * (fn.softplus(fake).mean() + fn.softplus(-real).mean())
            if turn == 2 and optimizer is first:
                loss = loss * torch.tensor(0.0).log()
            loss.backward()
            if turn == 2 and optimizer is first:
                with pytest.raises(NonFiniteError) as caught:
                    optimizer.step()
                assert caught.value.finding.step == 2
            else:
                optimizer.step()


def test_step_number_can_be_set_after_a_resume() -> None:
    model, optimizer, monitor = watched()
    monitor.step = 1000
    with pytest.raises(NonFiniteError) as caught:
        train(model, optimizer, bad_steps=(2,))
    assert caught.value.finding.step == 1002


def test_settings_of_the_training_reach_the_finding() -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.25, betas=(0.5, 0.75))
    numcheck_torch.instrument(model, on_error="record")
    with torch.autocast("cpu", torch.bfloat16):
        out = model(inputs())
        loss = fn.cross_entropy(out * math.inf, torch.zeros(6, dtype=torch.long))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    from numcheck_torch.settings import settings_of_run

    trace = model.numcheck.laboratory(with_update=False).replay()
    settings = settings_of_run(model.numcheck, trace)
    assert settings == {
        "framework": "torch",
        "device": "cpu",
        "optimizer": "Adam",
        "lr": 0.25,
        "beta1": 0.5,
        "beta2": 0.75,
        "eps": 1e-8,
        "weight_decay": 0.0,
        "autocast": "bfloat16",
        "clip_norm": 0.5,
        "classes": 3,
    }
    optimizer.step()
