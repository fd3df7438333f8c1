# SPDX-License-Identifier: Apache-2.0
"""A check changes nothing, and speaks up for NaN and Inf in value and gradient."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from numcheck.errors import ArgumentTypeError, NonFiniteError
from numcheck.record import TraceBuilder
from numcheck_torch.boundary import BOUNDARY, findings_of
from numcheck_torch.numerics_check import check_numerics
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck_torch.boundary import Checked


@pytest.fixture(autouse=True)
def _nothing_left_waiting() -> Iterator[None]:
    yield
    assert BOUNDARY.collect() == ()


class Net(nn.Module):
    def __init__(self, *, checked: bool) -> None:
        super().__init__()
        self.lin, self.out, self.checked = nn.Linear(4, 8), nn.Linear(8, 1), checked

    def check(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return check_numerics(x, name) if self.checked else x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.check(self.lin(self.check(x, "x")), "h")
        h = torch.tanh(h)
        h = self.check(h, "tanh")
        y: torch.Tensor = self.out(h)
        return y


@pytest.mark.parametrize(
    ("how", "dtype"),
    [
        ("eager", torch.float32),
        ("eager", torch.bfloat16),
        ("aot_eager", torch.bfloat16),
        ("inductor", torch.float32),
        ("checkpoint", torch.bfloat16),
    ],
    ids=str,
)
def test_values_and_gradients_are_bit_equal_with_and_without_a_check(
    how: str, dtype: torch.dtype
) -> None:
    results = []
    for checked in (False, True):
        torch.manual_seed(0)
        torch._dynamo.reset()
        net = Net(checked=checked).to(dtype)
        x = torch.randn(6, 4, dtype=dtype, requires_grad=True)
        run: Any = net
        if how in ("aot_eager", "inductor"):
            run = torch.compile(net, backend=how, fullgraph=True)
        elif how == "checkpoint":
            run = lambda x, net=net: checkpoint(net, x, use_reentrant=False)  # noqa: E731
        y = run(x)
        y.square().sum().backward()
        results.append([y, x.grad, *(p.grad for p in net.parameters())])
    for plain, with_check in zip(*results, strict=True):
        assert torch.equal(plain, with_check)


def test_eager_returns_the_very_tensor() -> None:
    x = torch.ones(3, requires_grad=True) * 2
    assert check_numerics(x, "x") is x


@pytest.mark.parametrize(
    ("value", "kind"),
    [(math.nan, "nan"), (math.inf, "+inf"), (-math.inf, "-inf")],
)
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.float8_e5m2], ids=str
)
def test_a_bad_value_is_raised_with_name_line_and_counts(
    value: float, kind: str, dtype: torch.dtype
) -> None:
    x = torch.tensor([1.0, value, 0.0]).to(dtype)
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(NonFiniteError) as caught:
        check_numerics(x, "hidden state")
    finding = caught.value.finding
    assert finding.severity == "error"
    assert finding.kind == kind
    assert finding.site.op == "output:hidden state"
    assert finding.site.source is not None
    assert finding.site.source.line == line
    assert finding.site.source.file == __file__
    assert "hidden state" in str(caught.value)


def test_a_bad_gradient_is_raised_out_of_backward() -> None:
    x = torch.zeros(3, requires_grad=True)
    y = check_numerics(x * 1.0, "before the root").sqrt()
    with pytest.raises(NonFiniteError) as caught:
        y.sum().backward()
    assert caught.value.finding.phase == "backward"
    assert caught.value.finding.kind == "+inf"
    assert caught.value.finding.site.op == "gradient:before the root"


def test_the_gradient_of_a_leaf_is_checked_once_and_not_ever_after() -> None:
    w = torch.zeros(2, requires_grad=True)
    for _ in range(3):
        check_numerics(w, "w").sum().backward()
    assert not w._backward_hooks
    with pytest.raises(NonFiniteError):
        check_numerics(w, "w").sqrt().sum().backward()
    w.sqrt().sum().backward()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_program_raises_for_value_and_gradient(backend: str) -> None:
    torch._dynamo.reset()

    @torch.compile(backend=backend, fullgraph=True)
    def root(x: torch.Tensor) -> torch.Tensor:
        return check_numerics(x + 0, "inner").sqrt().sum()

    root(torch.ones(3, requires_grad=True)).backward()
    with pytest.raises(NonFiniteError, match="inner"):
        root(torch.tensor([1.0, math.nan, 1.0], requires_grad=True))
    loss = root(torch.zeros(3, requires_grad=True))
    with pytest.raises(NonFiniteError) as caught:
        loss.backward()
    assert caught.value.finding.site.op == "gradient:inner"


def test_functional_transforms_are_checked_too() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return check_numerics(x * 2, "doubled").sqrt().sum()

    x = torch.rand(5, 3) + 1
    want = torch.stack([0.5 * (2 * r).pow(-0.5) * 2 for r in x])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(f))(x), want)
    with pytest.raises(NonFiniteError, match="doubled"):
        torch.func.vmap(torch.func.grad(f))(x * 0)


def test_without_sync_the_next_check_raises() -> None:
    bad = check_numerics(torch.tensor([math.nan]), "first", sync=False)
    assert torch.isnan(bad).all()
    with pytest.raises(NonFiniteError, match="first"):
        check_numerics(torch.ones(1), "second")


class Box:
    def __init__(self) -> None:
        self.checks: list[Checked] = []

    def take(self, checked: Checked) -> None:
        self.checks.append(checked)

    def follow(self, value: torch.Tensor, again: object) -> None:
        """A box runs nothing again."""


def test_inside_a_watched_step_the_monitor_takes_the_report() -> None:
    box = Box()
    BOUNDARY.open(box)
    try:
        check_numerics(torch.tensor([math.inf, -math.inf]), "both")
        check_numerics(torch.ones(2), "fine")
    finally:
        BOUNDARY.shut(box)
    (finding,) = findings_of(box.checks)
    assert (finding.site.op, finding.kind) == ("output:both", "inf")


def test_a_replay_hears_nothing() -> None:
    with BOUNDARY.muted():
        check_numerics(torch.tensor([math.nan]), "muted")


def test_a_recorder_does_not_see_the_check() -> None:
    builder = TraceBuilder(0)
    with Recorder(builder) as recorder:
        check_numerics(torch.ones(2), "x")
    recorder.finish()
    assert [s.op for s in builder.sites] == ["aten.ones.default"]


@pytest.mark.parametrize(
    "x",
    [torch.tensor([1, 2]), torch.tensor([True]), torch.empty(0)],
    ids=["integers", "bools", "empty"],
)
def test_what_cannot_be_bad_passes(x: torch.Tensor) -> None:
    assert check_numerics(x, "x") is x


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], "x"), "x must be a tensor, got list"),
        ((torch.ones(1), 3), "name must be a text, got int"),
    ],
    ids=["no tensor", "no text"],
)
def test_wrong_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=message):
        check_numerics(*arguments)
