# SPDX-License-Identifier: Apache-2.0
"""Operators that call functions they are given run as they do without us."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from numcheck.record import TraceBuilder
from numcheck_torch import instrument
from numcheck_torch.factors import OtherFactor
from numcheck_torch.generators import PutBack
from numcheck_torch.lift import Lift
from numcheck_torch.recorder import Recorder

cond = torch.ops.higher_order.cond
while_loop = torch.ops.higher_order.while_loop
scan = torch.ops.higher_order.associative_scan
keeping_state = torch.ops.higher_order.run_and_save_rng_state


def _recorded(operator: object, *args: object) -> tuple[object, list[str]]:
    builder = TraceBuilder(step=0)
    with torch.no_grad(), Recorder(builder) as recorder:
        result = operator(*args)  # type: ignore[operator]
    recorder.finish()
    return result, [site.op for site in builder.sites if site.kind == "operator"]


def test_the_operators_of_the_branch_taken_are_recorded() -> None:
    x = torch.tensor([1.0, -2.0])
    result, ops = _recorded(
        cond, x.sum() > 0, lambda x: (x.exp(),), lambda x: (x.sin().cos(),), (x,)
    )
    assert torch.equal(result[0], x.sin().cos())  # type: ignore[index]
    assert ops == ["aten.sin.default", "aten.cos.default"]


def test_every_round_of_a_loop_is_recorded() -> None:
    start = torch.zeros(()), torch.ones(2)
    result, ops = _recorded(
        while_loop,
        lambda i, x: i < 2,
        lambda i, x: (i + 1, x.exp()),
        start,
        (),
    )
    assert torch.equal(result[1], torch.ones(2).exp().exp())  # type: ignore[index]
    assert ops.count("aten.exp.default") == 2


def test_what_puts_results_together_itself_is_one_site() -> None:
    x = torch.arange(4.0)
    results, ops = _recorded(scan, lambda a, b: [a + b], [x], ())
    assert torch.equal(results[0], x.cumsum(0))  # type: ignore[index]
    assert ops == ["higher_order.associative_scan"]


def test_random_numbers_are_those_drawn_without_a_recording() -> None:
    x, dropout = torch.ones(16), torch.ops.aten.native_dropout.default
    torch.manual_seed(0)
    state, (plain, _) = keeping_state(dropout, x, 0.5, True)
    torch.manual_seed(0)
    result, ops = _recorded(keeping_state, dropout, x, 0.5, True)
    assert torch.equal(result[0], state)  # type: ignore[index]
    assert torch.equal(result[1][0], plain)  # type: ignore[index]
    assert "aten.native_dropout.default" in ops


@pytest.mark.parametrize(
    "mode", [Lift(torch.float32), OtherFactor(2.0, 1.0), PutBack()], ids=repr
)
def test_modes_of_experiments_let_conditions_run(mode: Lift | PutBack) -> None:
    x = torch.tensor([3.0])
    with torch.no_grad(), mode:
        (y,) = cond(x.sum() > 0, lambda x: (x.half(),), lambda x: (x,), (x,))
    assert y.dtype == (torch.float32 if isinstance(mode, Lift) else torch.float16)


class _Checkpointed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(self._inner, x, use_reentrant=False)
        return y

    def _inner(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(self.layer(x).relu(), 0.3)


def _train(*, is_watched: bool) -> list[torch.Tensor]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = _Checkpointed()
    model.compile(backend="aot_eager")
    if is_watched:
        instrument(model, level="trace")
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in (2, 3, 2):
        model(torch.randn(batch, 4)).square().mean().backward()
        sgd.step()
        sgd.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def test_a_compiled_checkpoint_with_dropout_trains_bit_for_bit_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = _train(is_watched=False)
    watched = _train(is_watched=True)
    assert all(map(torch.equal, plain, watched))
    assert "N901" not in capsys.readouterr().err
