# SPDX-License-Identifier: Apache-2.0
"""A lifted program is the program written in the wider format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from numcheck.diagnose.laboratory import CannotRunError
from numcheck_torch.lift import Lift, lifted_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

LOW = [torch.float16, torch.bfloat16]


class Net(nn.Module):
    """Casts in every way a program can, to a format given from outside."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.lin = nn.Linear(4, 4).to(dtype)
        self.out = nn.Linear(4, 1)
        self.register_buffer("scale", torch.full((4,), 1.5, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.lin(x.to(self.dtype))
        bias = torch.linspace(0, 1, 4).to(self.dtype) + torch.ones(4, dtype=self.dtype)
        h = torch.softmax(h * self.scale + bias, -1, dtype=self.dtype)
        cache = h.new_zeros(h.shape)
        cache[1:] = h[1:]
        cache.mul_(3.0)
        return self.out(cache.type(torch.float32))


def gradients(net: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    loss = net(x).square().mean()
    found = torch.autograd.grad(loss, list(net.parameters()))
    return [loss.detach(), *found]


def built(dtype: torch.dtype) -> tuple[Net, torch.Tensor]:
    torch.manual_seed(0)
    return Net(dtype), torch.randn(6, 4)


@pytest.mark.parametrize("low", LOW, ids=str)
def test_a_lifted_program_equals_the_one_written_in_float32(low: torch.dtype) -> None:
    net, x = built(low)
    with lifted_parameters(net, torch.float32), Lift(torch.float32):
        got = gradients(net, x)
    same, _ = built(low)
    same.dtype = torch.float32
    same.float()
    for lifted, written in zip(got, gradients(same, x), strict=True):
        assert torch.equal(lifted, written)


@pytest.mark.parametrize("low", LOW, ids=str)
def test_a_program_lifted_to_float64_equals_the_one_written_in_it(
    low: torch.dtype,
) -> None:
    net, x = built(low)
    with lifted_parameters(net, torch.float64), Lift(torch.float64):
        got = gradients(net, x)
    assert all(t.dtype == torch.float64 for t in got)
    same, _ = built(low)
    same.double()
    same.dtype = torch.float64
    want = gradients(Everything64(same), x.double())
    for lifted, written in zip(got, want, strict=True):
        torch.testing.assert_close(lifted, written, rtol=1e-6, atol=1e-9)


class Everything64(nn.Module):
    """Leaves out the last cast to float32, as the lift does."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        net = self.net
        h = net.lin(x)
        bias = torch.linspace(0, 1, 4).double() + 1
        h = torch.softmax(h * net.scale + bias, -1)
        cache = torch.cat([torch.zeros_like(h[:1]), h[1:]]) * 3.0
        y: torch.Tensor = net.out(cache)
        return y


@pytest.mark.parametrize("low", [*LOW, torch.float32], ids=str)
def test_a_lift_to_the_same_dtype_is_bit_equal(low: torch.dtype) -> None:
    net, x = built(low)
    plain = gradients(net, x)
    with Lift(None):
        lifted = gradients(net, x)
    for a, b in zip(plain, lifted, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


@pytest.mark.parametrize("low", LOW, ids=str)
def test_autocast_is_lifted_too(low: torch.dtype) -> None:
    torch.manual_seed(0)
    net, x = (
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
        torch.randn(5, 4),
    )
    plain = gradients(net, x)
    with torch.autocast("cpu", dtype=low), Lift(torch.float32):
        lifted = gradients(net, x)
    for a, b in zip(plain, lifted, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: x.half(),
        lambda x: x.to(torch.float16),
        lambda x: x.type(torch.HalfTensor),
        lambda x: torch.full((1,), 1e6, dtype=torch.float16),
        lambda x: torch.sum(x, dtype=torch.float16),
        lambda x: torch.zeros(1, dtype=torch.half).copy_(x),
    ],
    ids=["half", "to", "type", "factory", "dtype argument", "copy into half"],
)
def test_a_value_beyond_float16_survives_every_way_of_casting(
    cast: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    with Lift(torch.float32):
        y = cast(torch.tensor([1e6]))
    assert y.dtype == torch.float32
    assert y.item() == 1e6


def test_parameters_come_back_bit_for_bit_in_the_same_memory() -> None:
    net = nn.Linear(3, 3).half()
    weight, address = net.weight, net.weight.data_ptr()
    before, version = weight.detach().clone(), weight._version
    gradient = torch.ones_like(weight)
    weight.grad = gradient

    def lifted_step() -> None:
        with lifted_parameters(net, torch.float32):
            assert net.weight.dtype == torch.float32
            net(torch.ones(3)).sum().backward()
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        lifted_step()
    assert net.weight is weight
    assert weight.data_ptr() == address
    assert torch.equal(weight, before)
    assert weight.grad is gradient
    assert weight._version == version
    net(torch.ones(3, dtype=torch.half)).sum().backward()
    assert torch.equal(gradient, torch.full((3, 3), 2.0, dtype=torch.half))


@pytest.mark.parametrize(
    "program",
    [
        lambda: torch.ones(2, dtype=torch.half).view(torch.int16),
        lambda: torch.ones(2, dtype=torch.int16).view(torch.half),
        lambda: torch.ones(2, dtype=torch.half).view(torch.bfloat16),
    ],
    ids=["to integers", "from integers", "to another format"],
)
def test_a_program_that_reads_bits_cannot_be_lifted(
    program: Callable[[], torch.Tensor],
) -> None:
    plain = program()
    with Lift(None):
        assert torch.equal(program(), plain)
    with Lift(torch.float32), pytest.raises(CannotRunError, match=r"refusal\.views_"):
        program()


def test_a_float32_program_that_reads_bits_runs_under_a_lift_to_float32() -> None:
    with Lift(torch.float32):
        bits = torch.ones(2).view(torch.int32)
    assert bits.tolist() == [0x3F800000] * 2


def test_hooks_of_the_user_are_heard_inside_and_still_there_afterwards() -> None:
    net = nn.Linear(3, 1, bias=False).bfloat16()
    heard: list[str] = []
    weight = net.weight
    # What distributed wrappers do: hang something on where gradients are added up.
    node = weight.expand_as(weight).grad_fn.next_functions[0][0]
    node.register_hook(lambda *_: heard.append("accumulated"))
    weight.register_hook(lambda _: heard.append(str(weight.grad_fn)))
    with lifted_parameters(net, torch.float32):
        torch.autograd.grad(net(torch.ones(3)).sum(), net.weight)
        assert heard == ["None"]
    heard.clear()
    net(torch.ones(3, dtype=torch.bfloat16)).sum().backward()
    assert heard == ["None", "accumulated"]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_use_the_lifted_weights(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    net = kind(3, 3, num_layers=2).bfloat16()
    x = torch.randn(4, 2, 3)
    wide = kind(3, 3, num_layers=2)
    wide.load_state_dict(net.state_dict())
    with lifted_parameters(net, torch.float32), Lift(torch.float32):
        lifted = torch.autograd.grad(net(x)[0].sum(), [*net.parameters()])
    want = torch.autograd.grad(wide(x)[0].sum(), [*wide.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(lifted, want, strict=True))
