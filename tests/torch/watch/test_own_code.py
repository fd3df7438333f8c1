# SPDX-License-Identifier: Apache-2.0
"""Code of the user's that runs beside operators: own gradients, compiled updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.optim.optimizer import _global_optimizer_pre_hooks

import numcheck_torch
from numcheck.errors import NonFiniteError
from numcheck_torch import own_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Rooted(torch.autograd.Function):
    """A square whose gradient takes a root that is not always there."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, lift: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.lift = lift
        return x.square()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient * torch.sqrt(x.abs().amin() + ctx.lift), None


def test_the_gradient_of_a_function_of_one_s_own_is_looked_into() -> None:
    torch.manual_seed(0)
    model = numcheck_torch.instrument(nn.Linear(3, 2), audit_first=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    Rooted.apply(model(torch.ones(4, 3)), -100.0).mean().backward()
    with pytest.raises(NonFiniteError):
        optimizer.step()
    model.numcheck.close()
    (found,) = model.numcheck.findings
    assert (found.site.op, found.phase) == ("aten.sqrt.default", "backward")
    assert found.site.source is not None
    assert "ctx.lift" in found.site.source.text


def test_the_method_is_the_class_s_own_again_when_nobody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_functions, "_LISTENING", [])
    before = own_functions._PLAIN
    with numcheck_torch.instrument(nn.Linear(1, 1)).numcheck:
        assert vars(torch.autograd.Function)["apply"] is not before
    assert vars(torch.autograd.Function)["apply"] is before


def test_what_others_put_in_the_method_s_place_stays_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_functions, "_LISTENING", [])
    before: Any = vars(torch.autograd.Function)["apply"]
    monkeypatch.setattr(torch.autograd.Function, "apply", before)
    with numcheck_torch.instrument(nn.Linear(1, 1)).numcheck:
        theirs = classmethod(vars(torch.autograd.Function)["apply"].__func__)
        monkeypatch.setattr(torch.autograd.Function, "apply", theirs)
    assert vars(torch.autograd.Function)["apply"] is theirs


class Closed(Mapping[str, Any]):
    """Settings that cannot be walked through."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("closed")

    def __getitem__(self, name: str) -> Any:
        return 1.0


class Configured(torch.autograd.Function):
    """A square that is given settings, and may return them."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, given: Any, back: Any) -> Any:
        ctx.save_for_backward(x)
        return x.square(), back

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * gradient, None, None


@pytest.mark.parametrize("settings", [(Closed(), None), (None, Closed())])
def test_a_function_gets_and_returns_what_nobody_else_can_read(settings: Any) -> None:
    model = numcheck_torch.instrument(nn.Linear(3, 2), audit_first=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    out, back = Configured.apply(model(torch.ones(4, 3)), *settings)
    assert back is settings[1]
    (out.mean() * torch.nan).backward()
    with pytest.raises(NonFiniteError):
        optimizer.step()
    model.numcheck.close()
    assert [e.value for e in model.numcheck.events if e.name == "fault"] == []


def as_a_method(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    return optimizer.step


def as_a_function(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    def update() -> None:
        optimizer.step()

    return update


def counted_by_a_scheduler(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    return optimizer.step


@pytest.mark.parametrize(
    "update_of", [as_a_method, as_a_function, counted_by_a_scheduler]
)
def test_a_compiled_update_is_heard(update_of: Callable[..., Any]) -> None:
    def trained(*, watched: bool) -> tuple[nn.Module, int]:
        torch.manual_seed(0)
        torch.compiler.reset()
        model, steps = nn.Linear(3, 2), 0
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if watched:
            numcheck_torch.instrument(model, optimizer, audit_first=False)
        update = torch.compile(update_of(optimizer), backend="eager")
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(4, 3)).square().mean().backward()
            update()
        if watched:
            steps = model.numcheck.step
            model(torch.ones(4, 3)).log().mean().backward()
            with pytest.raises(NonFiniteError):
                update()
            model.numcheck.close()
        return model, steps

    (plain, _), (model, steps) = trained(watched=False), trained(watched=True)
    assert torch.equal(model.weight, plain.weight)
    assert steps == 2
    (found,) = model.numcheck.findings
    assert found.site.op.startswith("aten.log.")
    assert [e.value for e in model.numcheck.events if e.name == "fault"] == []


@pytest.mark.parametrize("level", ["watch", "anchors", "trace"])
def test_calls_inside_a_function_transform_are_left_alone(level: Any) -> None:
    torch.manual_seed(0)
    model = numcheck_torch.instrument(nn.Linear(3, 1), level=level)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 3)

    def loss(parameters: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        return functional_call(model, parameters, (row,)).square().sum()

    for _ in range(2):
        held = {n: p.detach() for n, p in model.named_parameters()}
        each = vmap(grad(loss), in_dims=(None, 0))(held, x)
        for name, parameter in model.named_parameters():
            parameter.grad = each[name].mean(0)
        optimizer.step()
    model.numcheck.close()
    assert [e.value for e in model.numcheck.events if e.name == "fault"] == []
    assert model.numcheck.findings == ()


def test_another_monitor_leaves_the_table_of_optimizer_hooks_alone() -> None:
    """Other threads may be walking through it, in a step of their own."""
    with numcheck_torch.instrument(nn.Linear(2, 1)).numcheck:
        before = [*_global_optimizer_pre_hooks.items()]
        with numcheck_torch.instrument(nn.Linear(2, 1)).numcheck:
            assert [*_global_optimizer_pre_hooks.items()] == before
        assert [*_global_optimizer_pre_hooks.items()] == before


def test_a_module_without_values_yet_is_watched_once_it_has_them() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 1))
    numcheck_torch.instrument(model, level="trace")
    model(torch.ones(2, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
    model(torch.ones(2, 4)).sub(1e9).log().mean().backward()
    with pytest.raises(NonFiniteError):
        optimizer.step()
    model.numcheck.close()
    assert [e.value for e in model.numcheck.events if e.name == "fault"] == []


def test_what_traces_a_program_sees_nothing_of_the_watching() -> None:
    model = nn.Linear(3, 2)
    x = torch.ones(1, 3)
    plain = [n.target for n in make_fx(model)(x).graph.nodes]
    numcheck_torch.instrument(model, level="trace")
    assert [n.target for n in make_fx(model)(x).graph.nodes] == plain
    with FakeTensorMode(allow_non_fake_inputs=True):
        model(torch.ones(1, 3)).sum().backward()
    model.numcheck.close()
    assert [e.value for e in model.numcheck.events if e.name == "fault"] == []


def test_clipped_gradients_that_the_loop_then_throws_away_are_looked_at() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numcheck_torch.instrument(model, optimizer, audit_first=False)
    out = model(torch.ones(4, 3))
    (out + torch.sqrt(out - out.detach())).mean().backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert not norm.isfinite()
    with pytest.raises(NonFiniteError) as error:
        model(torch.ones(4, 3))  # the gradients are still there
    assert error.value.finding.phase == "backward"
    model.numcheck.close()
