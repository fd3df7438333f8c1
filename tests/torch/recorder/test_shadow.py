# SPDX-License-Identifier: Apache-2.0
"""The twin in step is the lifted program, and the program is not disturbed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes

from numcheck.record import TraceBuilder
from numcheck_torch.lift import Lift, lifted_parameters
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

LOW = [torch.float16, torch.bfloat16]
Program = "Callable[[torch.Tensor], torch.Tensor]"


def relative(value: torch.Tensor, reference: torch.Tensor) -> float:
    error = (value.double() - reference.double()).norm()
    return float(error / reference.double().norm())


def departure(program: Callable[[], torch.Tensor]) -> tuple[float, Recorder]:
    recorder = Recorder(TraceBuilder(0), shadow="float32")
    with recorder:
        kept = recorder.keep(program(), "output", "output")
    recorder.finish()
    return recorder.departures[kept], recorder


def views_and_writes(x: torch.Tensor) -> torch.Tensor:
    y = x.half() if x.dtype == torch.float32 else x.clone()
    rows = y.view(4, 6)
    rows[1].mul_(1.1)
    rows.t()[2:].add_(0.3).div_(3)
    y[::2] = y[1::2].exp()
    return y.sum() + rows[0]


def sorted_and_masked(x: torch.Tensor) -> torch.Tensor:
    h = x.half() * 1.37
    values, order = h.sort()
    top, _ = values.topk(5)
    h[h > 0.5] = 0.1
    return torch.cat([top, h.masked_select(h < 0), values.gather(0, order)])


def many_kinds(x: torch.Tensor) -> torch.Tensor:
    h = x.half().view(2, 3, 2, 2)
    kernel = torch.linspace(-1, 1, 9, dtype=torch.half).view(3, 3, 1, 1)
    h = functional.conv2d(h, kernel)
    h = functional.max_pool2d(h, 2).flatten(1)
    h = functional.layer_norm(h, (3,))
    h = torch.softmax(h, -1, dtype=torch.float32).half()
    q = h.view(1, 1, 2, 3)
    return functional.scaled_dot_product_attention(q, q, q).cumsum(-1)


@pytest.mark.parametrize("program", [views_and_writes, sorted_and_masked, many_kinds])
def test_the_twin_holds_what_the_lifted_program_computes(
    program: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    x = torch.randn(24, generator=torch.Generator().manual_seed(0))
    with Lift(torch.float32):
        want = program(x)
    plain = program(x)
    got, recorder = departure(lambda: program(x))
    assert got == pytest.approx(relative(plain, want), rel=1e-6)
    assert 0 < got < 0.01
    assert recorder.fallen_back == {}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(9, 8)
        self.norm = nn.LayerNorm(8)
        self.drop = nn.Dropout(0.4)
        self.lin = nn.Linear(8, 8)
        self.bn = nn.BatchNorm1d(8)
        self.out = nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.drop(self.norm(self.emb(ids)).mean(1))
        h = self.bn(functional.gelu(self.lin(h)))
        y: torch.Tensor = self.out(h)
        return y


def built() -> tuple[Net, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    return Net(), torch.randint(0, 9, (12, 5)), torch.randint(0, 3, (12,))


def step(
    net: nn.Module, ids: torch.Tensor, y: torch.Tensor, optimizer: Any = None
) -> torch.Tensor:
    torch.manual_seed(7)
    loss = functional.cross_entropy(net(ids).float(), y)
    loss.backward()
    if optimizer is not None:
        optimizer.step()
    return loss.detach()


@pytest.mark.parametrize("low", LOW, ids=str)
@pytest.mark.parametrize("autocast", [False, True], ids=["cast", "autocast"])
def test_a_training_step_departs_from_its_lift_as_two_separate_runs_do(
    low: torch.dtype, autocast: bool
) -> None:
    net, ids, y = built()
    plain, _, _ = built()
    lifted, _, _ = built()
    if not autocast:
        net, plain, lifted = net.to(low), plain.to(low), lifted.to(low)
    recorder = Recorder(TraceBuilder(0), modules=net, shadow="float32")
    with recorder, torch.autocast("cpu", low, enabled=autocast):
        kept = {"loss": recorder.keep(step(net, ids, y), "loss", "loss")}
        for name, p in net.named_parameters():
            assert p.grad is not None
            kept[name] = recorder.keep(p.grad, f"gradient:{name}", "gradient")
    recorder.finish()
    with torch.autocast("cpu", low, enabled=autocast):
        loss = step(plain, ids, y)
        want = {"loss": loss} | {n: p.grad for n, p in plain.named_parameters()}
        with lifted_parameters(lifted, torch.float32), Lift(torch.float32):
            loss = step(lifted, ids, y)
            wide = {"loss": loss} | {n: p.grad for n, p in lifted.named_parameters()}
    assert recorder.fallen_back == {}
    for name, site in kept.items():
        expected = relative(want[name], wide[name])  # type: ignore[arg-type]
        # Float32 kernels may add up in another order: the layouts differ.
        assert recorder.departures[site] == pytest.approx(expected, rel=1e-2, abs=1e-6)


@pytest.mark.parametrize("low", LOW, ids=str)
@pytest.mark.parametrize("foreach", [False, True])
def test_a_program_beside_its_twin_is_bit_equal_to_the_plain_one(
    low: torch.dtype, foreach: bool
) -> None:
    results = []
    for watched in (False, True):
        net, ids, y = built()
        optimizer = torch.optim.AdamW(net.parameters(), foreach=foreach)
        losses = []
        for k in range(2):
            recorder = Recorder(TraceBuilder(k), modules=net, shadow="float32")
            with torch.autocast("cpu", low):
                if watched:
                    with recorder:
                        losses.append(step(net, ids, y, optimizer))
                    recorder.finish()
                else:
                    losses.append(step(net, ids, y, optimizer))
        results.append([*losses, *net.state_dict().values(), torch.get_rng_state()])
    for plain, beside in zip(*results, strict=True):
        assert torch.equal(plain, beside)


def test_a_float32_program_departs_nowhere() -> None:
    net, ids, y = built()
    recorder = Recorder(TraceBuilder(0), modules=net, shadow="float32")
    with recorder:
        step(net, ids, y, torch.optim.AdamW(net.parameters()))
    recorder.finish()
    assert set(recorder.departures.values()) == {0.0}
    assert len(recorder.departures) > 100


def test_a_float32_program_departs_from_a_float64_twin_by_its_rounding() -> None:
    x = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    recorder = Recorder(TraceBuilder(0), shadow="float64")
    with recorder:
        kept = recorder.keep(x.exp().cumsum(0), "output", "output")
    recorder.finish()
    want = relative(x.exp().cumsum(0), x.double().exp().cumsum(0))
    assert recorder.departures[kept] == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize(
    ("program", "want"),
    [
        (lambda: torch.tensor([300.0]).half().square().float(), math.inf),
        (lambda: torch.tensor([1e-5]).half().square().float(), 1.0),
        (lambda: torch.tensor([2.0]).half().square().float(), 0.0),
        (lambda: torch.tensor([-math.inf, 1.0]).half() * 2, 0.0),
        (lambda: torch.zeros(2).half().log(), 0.0),
    ],
    ids=["overflow", "underflow", "exact", "a given infinity", "both infinite"],
)
def test_departures_at_the_ends_of_the_range(
    program: Callable[[], torch.Tensor], want: float
) -> None:
    assert departure(program)[0] == want


def test_random_numbers_are_the_programs_own() -> None:
    def program() -> torch.Tensor:
        x = torch.ones(64, dtype=torch.half)
        noise = torch.randn(64, dtype=torch.half) + torch.rand_like(x)
        return noise + x.clone().normal_() + torch.bernoulli(x * 0.5)

    torch.manual_seed(0)
    got, _ = departure(program)
    state = torch.get_rng_state()
    torch.manual_seed(0)
    program()
    assert torch.equal(state, torch.get_rng_state())
    assert 0 < got < 1e-3


def test_an_operator_that_cannot_be_lifted_is_counted_and_passed_over() -> None:
    @torch.library.custom_op("numcheck_test::halves_only", mutates_args=())
    def halves_only(x: torch.Tensor) -> torch.Tensor:
        return x * 1.001

    got, recorder = departure(lambda: halves_only(torch.ones(3).half()) * 2)
    assert recorder.fallen_back == {"numcheck_test.halves_only.default": 1}
    assert got == 0.0


def twins_after(steps: int) -> int:
    """How many twins are held after a chain of operators, each freeing the last."""
    recorder = Recorder(TraceBuilder(0), shadow="float32")
    # A mode of somebody else's may hold what it sees.
    with _disable_current_modes(), recorder:
        x = torch.ones(8).half()
        for _ in range(steps):
            x = x * 1.0
    assert recorder._shadow is not None
    return len(recorder._shadow._twins)


@pytest.mark.parametrize("steps", [100, 2000, 8000])
def test_twins_of_freed_memory_are_let_go(steps: int) -> None:
    assert twins_after(steps) <= 256
