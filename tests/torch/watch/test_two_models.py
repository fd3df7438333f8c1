# SPDX-License-Identifier: Apache-2.0
"""A generator and its critic, each watched, trained in turn on one batch."""

from __future__ import annotations

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
    """Train as the well-known example does, and break in the third step."""
    torch.manual_seed(0)
    generator, critic = Generator(), nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))
    optimizers = [
        torch.optim.Adam(m.parameters(), lr=0.01) for m in (generator, critic)
    ]
    if watched:
        for model in (generator, critic):
            numcheck_torch.instrument(model, **options)
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
    return [generator, critic]


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
        with other.numcheck as monitor:
            assert monitor.findings == ()
        assert [e.value for e in monitor.events if e.name == "fault"] == []
        for name, value in one.state_dict().items():
            assert torch.equal(value, other.state_dict()[name])
