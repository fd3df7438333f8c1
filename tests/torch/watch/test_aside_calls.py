# SPDX-License-Identifier: Apache-2.0
"""Calls of the watched module, beside the one whose loss is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

import numcheck_torch
from numcheck.errors import NonFiniteError

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.ones(2, 3)


def without_gradients(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = model(X)
    return out


def with_other_parameters(model: nn.Module) -> torch.Tensor:
    halves = {n: p.detach() / 2 for n, p in model.named_parameters()}
    out: torch.Tensor = functional_call(model, halves, (X,))
    return out


def for_each_row(model: nn.Module) -> torch.Tensor:
    return vmap(model)(X).detach()


@pytest.mark.parametrize(
    "look_aside", [without_gradients, with_other_parameters, for_each_row]
)
def test_a_loss_is_followed_past_a_call_that_is_not_trained_on(
    look_aside: Callable[[nn.Module], torch.Tensor],
) -> None:
    torch.manual_seed(0)
    model = numcheck_torch.instrument(nn.Linear(3, 2), audit_first=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        out = model(X)
        loss = (out - look_aside(model)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    out = model(X)
    target = look_aside(model)
    ((out - target).square().mean() / (out - out).sum()).backward()
    with pytest.raises(NonFiniteError):
        optimizer.step()
    model.numcheck.close()
    (found,) = model.numcheck.findings
    assert (found.site.op, found.step, found.reproduced) == ("aten.div.Tensor", 2, True)
    assert [e.value for e in model.numcheck.events if e.name == "fault"] == []
