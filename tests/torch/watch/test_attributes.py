# SPDX-License-Identifier: Apache-2.0
"""Replays leave what a module keeps in plain attributes as the user's calls do."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable


class Meter:
    """Keeps a count of its own, on the module's behalf."""

    def __init__(self) -> None:
        self.updates = 0
        self.values: list[int] = []

    def update(self, value: int) -> None:
        self.updates += 1
        self.values.append(value)


HEARD: list[str] = []


class Keeping(nn.Module):
    """Counts its calls, keeps its state and writes a diary, none of it in a buffer."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.calls = 0
        self.meter = Meter()
        self.last = last
        self.diary: list[int] = []
        self.seen: dict[str, int] = {}
        self.recent: deque[int] = deque(maxlen=2)
        self.total = torch.zeros(3)
        self.sums = [torch.zeros(())]
        self.rows = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.meter.update(self.calls)
        self.diary.append(self.calls)
        self.seen[f"call {self.calls}"] = self.calls
        self.recent.append(self.calls)
        self.total.add_(x.sum(0))
        self.sums[0].add_(1)
        self.rows.data = torch.zeros(self.calls)
        self.state = self.lin(x + getattr(self, "state", 0.0)).detach()
        temperature = max(0.0, 1.0 - self.calls / self.last)
        out: torch.Tensor = self.lin(x * self.calls) / torch.tensor(temperature)
        return out


def trained(
    *, watched: bool, steps: int = 4, freed: torch.Tensor | None = None
) -> tuple[Keeping, Any]:
    torch.manual_seed(0)
    model = Keeping(last=6)
    if freed is not None:
        model.freed = freed
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    called: Any = model
    if watched:
        called = numcheck_torch.instrument(model, optimizer, on_error="record", every=2)
    for _ in range(steps):
        optimizer.zero_grad()
        called(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()
    return model, called


def test_a_watched_module_counts_keeps_and_writes_as_a_plain_one() -> None:
    plain, _ = trained(watched=False)
    model, called = trained(watched=True)
    called.numcheck.close()
    assert (model.calls, model.diary, model.seen) == (4, [1, 2, 3, 4], plain.seen)
    assert model.recent == plain.recent
    assert vars(model.meter) == vars(plain.meter)
    assert torch.equal(model.state, plain.state)
    assert torch.equal(model.total, plain.total)
    assert torch.equal(model.sums[0], plain.sums[0])
    assert torch.equal(model.rows, plain.rows)
    assert torch.equal(model.lin.weight, plain.lin.weight)


def test_an_attribute_whose_memory_was_given_back_is_left_alone() -> None:
    freed = torch.zeros(1 << 16)
    freed.untyped_storage().resize_(0)
    model, called = trained(watched=True, freed=freed)
    called.numcheck.close()
    assert model.freed is freed
    assert freed.untyped_storage().nbytes() == 0
    assert not [e for e in called.numcheck.events if e.name == "fault"]


@pytest.mark.parametrize("watched", [False, True])
def test_a_count_in_an_attribute_reaches_its_fault_at_the_same_step(
    watched: bool,
) -> None:
    model, called = trained(watched=watched, steps=6)
    assert not model.lin.weight.isfinite().all()
    if watched:
        called.numcheck.close()
        (found,) = (f for f in called.numcheck.findings if f.severity == "error")
        assert (found.id, found.step, found.reproduced) == ("N303", 5, True)


class Sealed(dict[str, int]):
    """A dictionary that takes its entries one by one."""

    def update(self, *_: Any, **__: Any) -> None:
        raise TypeError("set each entry by itself")


def test_a_container_that_cannot_be_filled_at_once_is_not_emptied() -> None:
    model = Keeping(last=3)
    model.seen = Sealed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    called = numcheck_torch.instrument(model, optimizer, on_error="record")
    for _ in range(3):
        optimizer.zero_grad()
        called(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()
    called.numcheck.close()
    assert model.seen == {f"call {i}": i for i in (1, 2, 3)}
    assert not [e for e in called.numcheck.events if e.name == "fault"]
    assert [f.id for f in called.numcheck.findings] == ["N303"]


class Carrying(nn.Module):
    """Hands a state with its graph from one call of a step to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.state: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = 0.0 if self.state is None else self.state
        self.state = self.lin(x + before)
        return self.state.exp()


def test_a_state_that_carries_its_graph_to_the_next_call_is_made_again() -> None:
    torch.manual_seed(0)
    model = Carrying()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    called = numcheck_torch.instrument(
        model, optimizer, on_error="record", audit_first=True
    )
    for size in (1.0, 1.0, 1e4):
        model.state = None
        optimizer.zero_grad()
        sum(called(torch.full((2, 3), size)).mean() for _ in range(3)).backward()
        optimizer.step()
    called.numcheck.close()
    assert not [e for e in called.numcheck.events if e.name == "fault"]
    found = next(f for f in called.numcheck.findings if f.severity == "error")
    assert (found.id, found.step, found.reproduced) == ("N104", 2, True)


def test_what_hooks_keep_outside_the_module_is_as_in_a_plain_run() -> None:
    heard: list[str] = []
    count = 0
    HEARD.clear()

    def forward(*_: Any) -> None:
        nonlocal count
        count += 1
        HEARD.append("forward")

    def backward(*_: Any) -> None:
        heard.append("backward")

    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model[1].register_forward_hook(forward)
    model[1].register_full_backward_hook(backward)
    model[0].weight.register_hook(backward)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with numcheck_torch.instrument(model, optimizer, every=1).numcheck:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()
    assert (count, HEARD, heard) == (2, ["forward"] * 2, ["backward"] * 4)


def test_hooks_that_count_alike_each_keep_their_own_count() -> None:
    counts: list[Callable[[], int]] = []

    def counter() -> Callable[..., None]:
        count = 0

        def hook(*_: Any) -> None:
            nonlocal count
            count += 1

        counts.append(lambda: count)
        return hook

    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    for layer in model:
        layer.register_forward_hook(counter())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with numcheck_torch.instrument(model, optimizer, every=1).numcheck:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()
    assert [count() for count in counts] == [2, 2]
