# SPDX-License-Identifier: Apache-2.0
"""A watched training gives the plain one's results, bit for bit."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import torch

import numcheck_torch
from tests.torch.identity import programs
from tests.torch.identity.further_programs import FURTHER
from tests.torch.identity.own_optimizers import OWN_OPTIMIZERS
from tests.torch.identity.programs import STEPS

if TYPE_CHECKING:
    from tests.torch.identity.programs import Program


PROGRAMS = programs.PROGRAMS | FURTHER | OWN_OPTIMIZERS


def build(name: str) -> Program:
    return programs.build(name, PROGRAMS)


@dataclasses.dataclass
class Outcome:
    losses: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    state: dict[str, torch.Tensor]
    random: torch.Tensor


def trained(program: Program) -> Outcome:
    losses, gradients = [], []
    called = program.called or program.model
    torch.manual_seed(17)
    for step in range(STEPS):
        losses.append(program.compute(called, step))
        gradients += [
            None if p.grad is None else p.grad.clone()
            for p in program.model.parameters()
        ]
        program.update()
    state = {k: v.clone() for k, v in program.model.state_dict().items()}
    return Outcome(losses, gradients, state, torch.get_rng_state())


def bits(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return (
        value.dtype,
        tuple(value.shape),
        value.contiguous().view(-1).numpy().tobytes(),
    )


def assert_same(plain: Outcome, watched: Outcome) -> None:
    assert list(map(bits, plain.losses)) == list(map(bits, watched.losses))
    assert list(map(bits, plain.gradients)) == list(map(bits, watched.gradients))
    assert {k: bits(v) for k, v in plain.state.items()} == {
        k: bits(v) for k, v in watched.state.items()
    }
    assert torch.equal(plain.random, watched.random)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "options",
    [{"audit_first": False}, {"every": 2}],
    ids=["watching only", "auditing"],
)
def test_watching_changes_no_bit(name: str, options: dict[str, Any]) -> None:
    plain = trained(build(name))
    program = build(name)
    numcheck_torch.instrument(program.model, on_error="record", **options)
    with program.model.numcheck as monitor:
        watched = trained(program)
    assert_same(plain, watched)
    assert [e.value for e in monitor.events if e.name == "fault"] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_healthy_training_gives_no_finding(name: str) -> None:
    program = build(name)
    model = numcheck_torch.instrument(program.model)
    with model.numcheck as monitor:
        trained(program)
    assert [f for f in monitor.findings if f.severity != "note"] == []
    assert monitor.step == STEPS


# These have updated something by the time that their step is looked at, or have hung
# something on what a replay leaves asleep, or draw from what nobody can know of.
NOT_REPLAYED = {
    "LBFGS closure",
    "adversaries in turn",
    "updates in the backward",
    "hook on gradient accumulation",
    "parts called alone",
    "a generator in a closure",
    # Its loss is another object than the one that an operator made.
    "images of a class of their own",
}
REPLAYED = [name for name in PROGRAMS if name not in NOT_REPLAYED]


@pytest.mark.parametrize("name", REPLAYED)
def test_replay_repeats_the_step_bit_for_bit(name: str) -> None:
    program = build(name)
    model = numcheck_torch.instrument(program.model, audit_first=False)
    for step in range(2):
        loss = program.compute(program.model, step)
        expected = {
            n: bits(p.grad)
            for n, p in program.model.named_parameters()
            if p.grad is not None
        }
        before = {k: bits(v) for k, v in program.model.state_dict().items()}
        random = torch.get_rng_state()

        laboratory = model.numcheck.laboratory(with_update=False)
        trace = laboratory.replay()

        found = laboratory.outcomes
        assert {n: bits(g) for n, g in found.gradients.items()} == expected
        assert bits(sum(found.losses)) == bits(loss)
        after = {k: bits(v) for k, v in program.model.state_dict().items()}
        assert after == before
        assert torch.equal(torch.get_rng_state(), random)
        assert any(s.role == "loss" for s in trace.sites)
        program.update()
