# SPDX-License-Identifier: Apache-2.0
"""A small net with one fault in it, trained in the ways people train."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import numcheck_torch
from tests.torch.faults.fault import WIDTH
from tests.torch.faults.oracle import Births

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding
    from tests.torch.faults.fault import Fault
    from tests.torch.faults.oracle import Birth

BAD, BATCH = 1, 6
PLACE = "inner.fault"


@dataclasses.dataclass(frozen=True)
class Way:
    """How a model is trained.

    Attributes:
        reentrant: which kind of checkpoint is around the fault; None for none.
        autocast: lower precision of the forward.
        scaled: whether a gradient scaler is in use.
        backend: what compiles the model.
    """

    reentrant: bool | None = None
    autocast: torch.dtype | None = None
    scaled: bool = False
    backend: Any = None


class Net(nn.Module):
    def __init__(self, fault: Fault, reentrant: bool | None) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.inner = nn.ModuleDict({"fault": fault})
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        h = self.stem(x).float()
        fault = self.inner["fault"]
        if self.reentrant is None:
            h = fault(h, a)
        else:
            h = checkpoint(fault, h, a, use_reentrant=self.reentrant)
        return self.head(h)


class Told(NamedTuple):
    """What numcheck said, and what the oracle did of the same program."""

    errors: list[Finding]
    births: list[Birth]


def told(kind: type[Fault], way: Way, **options: Any) -> Told:
    """Trains with the fault armed from step `BAD` on: once plain, once watched."""
    with Births() as oracle:
        train(built(kind, way), way)
    options = {"on_error": "record", "audit_first": False} | options
    monitor = train(built(kind, way), way, options)
    faults = [str(e.value) for e in monitor.events if e.name == "fault"]
    assert faults == []
    errors = [f for f in monitor.findings if f.severity == "error"]
    return Told(errors, oracle.births)


def built(kind: type[Fault], way: Way) -> nn.Module:
    torch.manual_seed(0)
    return Net(kind(), way.reentrant)


def train(model: nn.Module, way: Way, options: dict[str, Any] | None = None) -> Any:
    """Trains, watched where there are options; then returns the monitor, closed."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, enabled=way.scaled)
    if options is None:
        return loop(model, way, optimizer, scaler)
    if way.backend is not None:
        model = torch.compile(model, backend=way.backend)
    model = numcheck_torch.instrument(model, optimizer, scaler, **options)
    with model.numcheck as monitor:
        loop(model, way, optimizer, scaler)
    return monitor


def loop(model: nn.Module, way: Way, optimizer: Any, scaler: Any) -> None:
    data = torch.Generator().manual_seed(1)
    # A scaler skips what overflows, for some time without suspicion.
    for step in range(BAD + 5 if way.scaled else BAD + 1):
        x = torch.randn(BATCH, WIDTH, generator=data)
        low = contextlib.nullcontext()
        if way.autocast is not None:
            low = torch.autocast("cpu", way.autocast)
        optimizer.zero_grad()
        with low:
            out = model(x, torch.tensor(float(step >= BAD)))
        loss = out.float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
