# SPDX-License-Identifier: Apache-2.0
"""A generator and its critic, each watched, trained in turn on one batch."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import numcheck_torch
from numcheck.errors import NonFiniteError

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.breaks = ""

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(noise)
        if self.breaks == "forward":
            out = out + torch.log(-out.detach().abs() - 1)
        if self.breaks == "backward":
            out = out + torch.sqrt(out - out.detach())
        return out


def trained(breaks: str, *, watched: bool = True, **options: Any) -> list[nn.Module]:
    torch.manual_seed(0)
    generator, critic = Generator(), nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))
    with ExitStack() as monitors:
        for model in (generator, critic) if watched else ():
            numcheck_torch.instrument(model, **options)
            monitors.enter_context(model.numcheck)
        train(generator, critic, breaks)
    return [generator, critic]


def train(generator: Generator, critic: nn.Module, breaks: str) -> None:
    """Train as the well-known example does, and break in the third step."""
    optimizers = [
        torch.optim.Adam(m.parameters(), lr=0.01) for m in (generator, critic)
    ]
    real, ones = torch.randn(4, 2), torch.ones(4, 1)
    loss = functional.binary_cross_entropy_with_logits
    for step in range(3):
        generator.breaks = breaks if step == 2 else ""
        critic.zero_grad()
        loss(critic(real), ones).backward()
        made = generator(torch.randn(4, 3))
        loss(critic(made.detach()), ones * 0).backward()
        optimizers[1].step()
        generator.zero_grad()
        loss(critic(made), ones).backward()
        optimizers[0].step()


@pytest.mark.parametrize(
    ("breaks", "op"), [("forward", "aten.log.default"), ("backward", "aten.div.Tensor")]
)
def test_the_generator_s_operator_is_named(breaks: str, op: str) -> None:
    with pytest.raises(NonFiniteError) as error:
        trained(breaks)
    found: Finding = error.value.finding
    assert (found.site.op, found.phase, found.step) == (op, breaks, 2)
    assert found.site.source is not None
    assert found.site.source.function == "Generator.forward"


@pytest.mark.parametrize("options", [{}, {"every": 1}, {"level": "trace"}])
def test_both_train_as_they_do_unwatched(options: dict[str, Any]) -> None:
    plain = trained("", watched=False)
    watched = trained("", **options)
    for one, other in zip(plain, watched, strict=True):
        assert other.numcheck.findings == ()
        events = other.numcheck.events
        assert [e.value for e in events if e.name == "fault"] == []
        for name, value in one.state_dict().items():
            assert torch.equal(value, other.state_dict()[name])
