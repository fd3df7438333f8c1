# SPDX-License-Identifier: Apache-2.0
"""Phase, line, module and family of operators in programs of every shape."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention as attention

from numcheck.record import SourceLine, TraceBuilder
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.record import Site


def sites_of(program: Callable[[], Any], **options: Any) -> list[Site]:
    builder = TraceBuilder(0)
    recorder = Recorder(builder, **options)
    with recorder:
        program()
    recorder.finish()
    return [s for s in builder.sites if s.kind == "operator"]


def line_of(function: Any, text: str) -> int:
    lines, start = inspect.getsourcelines(function)
    (found,) = [start + i for i, line in enumerate(lines) if text in line]
    return found


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return gradient * y  # the user's own backward


def test_a_custom_backward_has_the_line_the_user_wrote_it_on() -> None:
    def program() -> None:
        x = torch.ones(2, requires_grad=True)
        Exponential.apply(x).sum().backward()

    (product,) = [s for s in sites_of(program) if s.op == "aten.mul.Tensor"]
    assert product.phase == "backward"
    assert product.source is not None
    assert product.source.line == line_of(Exponential.backward, "own backward")
    assert ("forward_op", "aten.exp.default") in product.detail


def test_a_gradient_of_a_gradient_is_backward_not_recompute() -> None:
    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        (g,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
        g.square().sum().backward()

    phases = [s.phase for s in sites_of(program)]
    assert "recompute" not in phases
    assert phases.count("backward") > 8


def test_a_gradient_that_a_module_takes_in_its_forward_is_backward() -> None:
    class Force(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.func.vmap(torch.func.grad(lambda r: r.exp().sum()))(x)

    net = Force()
    found = sites_of(lambda: net(torch.ones(2, 3)).sin(), modules=net)
    phases = {s.op: s.phase for s in found}
    assert phases["aten.exp.default"] == phases["aten.sin.default"] == "forward"
    assert phases["aten.mul.Tensor"] == "backward"


def test_a_hook_on_a_tensor_has_its_own_line() -> None:
    def doubled(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.mul(2)  # in the hook

    def program() -> None:
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        y.register_hook(doubled)
        y.sum().backward()

    found = [
        s
        for s in sites_of(program)
        if s.source is not None and s.source.line == line_of(doubled, "in the hook")
    ]
    assert [(s.op, s.phase) for s in found] == [("aten.mul.Tensor", "backward")]


def test_a_loss_module_outside_the_tree_keeps_the_callers_scope() -> None:
    net = nn.Sequential(nn.Linear(2, 2))

    def program() -> None:
        nn.MSELoss()(net(torch.ones(1, 2)), torch.zeros(1, 2))

    loss = sites_of(program, modules=net)[-1]
    assert (loss.op, loss.scope, loss.scope_type) == (
        "aten.mse_loss.default",
        "",
        "MSELoss",
    )


def test_a_module_that_raises_is_left_again() -> None:
    class Raising(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("on purpose")

    net = nn.ModuleDict({"raising": Raising()})

    def program() -> None:
        with pytest.raises(RuntimeError, match="on purpose"):
            net["raising"](torch.ones(1))
        torch.ones(1).exp()

    assert sites_of(program, modules=net)[-1].scope == ""


def test_an_optimizers_closure_runs_forward_and_backward() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=1)
    builder = TraceBuilder(0)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(1, 2)).sum()
        loss.backward()
        return loss

    with Recorder(builder, modules=net) as recorder, recorder.phase("optimizer"):
        optimizer.step(closure)
    recorder.finish()
    phases = {(s.op, s.phase) for s in builder.sites}
    assert ("aten.addmm.default", "forward") in phases
    assert ("aten.mm.default", "backward") in phases
    assert ("aten.dot.default", "optimizer") in phases


def test_what_is_run_again_stands_where_it_is_said_to_come_from() -> None:
    line = SourceLine("train.py", 7, "loss", "return x.log()")
    builder = TraceBuilder(0)
    with Recorder(builder) as recorder, recorder.located(line, "head", "Head"):
        torch.ones(1).log()
    recorder.finish()
    site = builder.sites[-1]
    assert (site.source, site.scope, site.scope_type) == (line, "head", "Head")


@pytest.mark.parametrize(
    ("program", "family"),
    [
        (lambda x: x - 1, "sub"),
        (lambda x: x * x, "mul"),
        (lambda x: x / x, "div"),
        (lambda x: x**3, "pow"),
        (torch.sqrt, "sqrt"),
        (torch.rsqrt, "rsqrt"),
        (torch.reciprocal, "reciprocal"),
        (torch.expm1, "exp"),
        (torch.log1p, "log"),
        (torch.acos, "inverse_bounded"),
        (lambda x: x @ x, "matmul"),
        (lambda x: functional.conv1d(x[None], x[None]), "conv"),
        (lambda x: x.sum(0), "sum"),
        (lambda x: x.mean(), "mean"),
        (lambda x: x.prod(), "product"),
        (lambda x: x.cumsum(0), "cumulative"),
        (torch.linalg.vector_norm, "norm"),
        (lambda x: x.std(), "variance"),
        (lambda x: x.softmax(-1), "softmax"),
        (lambda x: x.log_softmax(-1), "log_softmax"),
        (lambda x: functional.layer_norm(x, (4,)), "normalisation"),
        (lambda x: functional.mse_loss(x, x), "loss"),
        (torch.linalg.eigh, "decomposition"),
        (torch.linalg.inv, "solve"),
        (lambda x: x.clamp(min=0), "select"),
        (lambda x: x[torch.tensor([0])], "gather"),
        (lambda x: x.index_add(0, torch.tensor([0]), x[:1]), "scatter"),
        (lambda x: x > 0, "compare"),
        (lambda x: x.half(), "cast"),
        (torch.zeros_like, "fill"),
        (torch.rand_like, "random"),
        (lambda x: attention(*[x[None, None]] * 3), "attention"),
    ],
)  # fmt: skip
def test_every_kind_of_operator_has_its_family(
    program: Callable[[torch.Tensor], Any], family: str
) -> None:
    x = torch.eye(4) * 0.5
    assert family in [s.family for s in sites_of(lambda: program(x))]


@pytest.mark.parametrize(
    ("forward", "backward", "family"),
    [
        (torch.tanh, "aten.tanh_backward.default", "sigmoid"),
        (
            lambda x: x.softmax(-1),
            "aten._softmax_backward_data.default",
            "softmax",
        ),
        (
            lambda x: functional.layer_norm(x, (4,)),
            "aten.native_layer_norm_backward.default",
            "normalisation",
        ),
    ],
    ids=["tanh", "softmax", "layer_norm"],
)
def test_a_backward_kernel_has_the_family_of_its_forward(
    forward: Callable[[torch.Tensor], torch.Tensor], backward: str, family: str
) -> None:
    x = torch.randn(4, 4, requires_grad=True)
    found = sites_of(lambda: forward(x).square().sum().backward())
    assert {s.family for s in found if s.op == backward} == {family}
