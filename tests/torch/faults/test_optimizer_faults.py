# SPDX-License-Identifier: Apache-2.0
"""An update that ruins a weight is named by the operator inside the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import numcheck_torch
from tests.torch.faults.oracle import Births, marked_line

if TYPE_CHECKING:
    from collections.abc import Callable

BAD = 2


# Where the first gradient is exactly zero, these divide zero by zero.
NO_EPSILON: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "Adam": lambda p, **o: torch.optim.Adam(p, lr=0.01, eps=0.0, **o),
    "AMSGrad": lambda p, **o: torch.optim.Adam(p, lr=0.01, eps=0.0, amsgrad=True, **o),
    "AdamW": lambda p, **o: torch.optim.AdamW(p, lr=0.01, eps=0.0, **o),
    "NAdam": lambda p, **o: torch.optim.NAdam(p, lr=0.01, eps=0.0, **o),
    "Adamax": lambda p, **o: torch.optim.Adamax(p, lr=0.01, eps=0.0, **o),
    "Adagrad": lambda p, **o: torch.optim.Adagrad(p, lr=0.01, eps=0.0, **o),
    "RMSprop": lambda p, **o: torch.optim.RMSprop(p, lr=0.01, eps=0.0, **o),
    "Adadelta": lambda p, **o: torch.optim.Adadelta(p, lr=0.01, eps=0.0, **o),
}
SGD: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p, **o: torch.optim.SGD(p, lr=1e10, **o),
    "momentum": lambda p, **o: torch.optim.SGD(p, lr=1e10, momentum=0.9, **o),
}
FORMS = {
    "loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
KINDS = [(n, f) for n in NO_EPSILON | SGD for f in ("loop", "foreach")]
KINDS += [(n, "fused") for n in ("Adam", "AMSGrad", "AdamW", "Adagrad", *SGD)]


class Net(nn.Module):
    """Its second layer is used only late, and then to no effect."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.late = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, *, late: bool) -> torch.Tensor:
        h = self.first(x)
        return h + 0 * self.late(h) if late else h


def train(model: nn.Module, optimizer: torch.optim.Optimizer, oracle: Births) -> None:
    is_sgd = optimizer.defaults["lr"] > 1
    for step in range(BAD + 2):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
        is_bad = step == BAD
        optimizer.zero_grad()
        out = model(x, late=step >= BAD and not is_sgd).square().mean()
        loss = out * (1e-12 if is_sgd and not is_bad else 1e30 if is_sgd else 1)
        loss.backward()
        with oracle:
            optimizer.step()  # fault


def built(name: str, form: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = Net()
    return model, (NO_EPSILON | SGD)[name](model.parameters(), **FORMS[form])


@pytest.mark.parametrize(("name", "form"), KINDS)
def test_the_operator_inside_the_optimizer_is_named(name: str, form: str) -> None:
    oracle, nobody = Births(), Births()
    train(*built(name, form), oracle)
    model, optimizer = built(name, form)
    options: Any = {"on_error": "record", "audit_first": False, "experiments": False}
    watched = numcheck_torch.instrument(model, optimizer, **options)
    with watched.numcheck as monitor:
        train(model, optimizer, nobody)
    found = monitor.findings[0]
    assert found.site.op == oracle.births[0].op
    assert (found.phase, found.step, found.severity) == ("optimizer", BAD, "error")
    assert found.harm[0].role == "parameter"
    assert found.site.source is not None
    assert found.site.source.line == marked_line(train)


def test_a_ruined_weight_that_no_later_step_reads_is_named_at_the_end() -> None:
    model, optimizer = built("Adam", "loop")
    options: Any = {"on_error": "record", "audit_first": False}
    watched = numcheck_torch.instrument(model, optimizer, **options)
    with watched.numcheck as monitor:
        for step in range(BAD + 3):
            optimizer.zero_grad()
            model(torch.randn(6, 4), late=step == BAD).square().mean().backward()
            optimizer.step()
    assert [p.isfinite().all().item() for p in model.late.parameters()] == [False] * 2
    found = monitor.findings[0]
    assert (found.site.op, found.reproduced) == ("parameter:late.weight", None)
