# SPDX-License-Identifier: Apache-2.0
"""A graph that cannot be measured is compiled as it is, and said not to be recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import numcheck_torch
from numcheck.record.notice import read_notice
from numcheck_torch.compile import backend as backends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def trained(backend: Any, *, is_watched: bool) -> tuple[list[torch.Tensor], list[str]]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    model.compile(backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if is_watched:
        model = numcheck_torch.instrument(model, level="trace", audit_first=False)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 3)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    if not is_watched:
        return losses, []
    model.numcheck.close()
    return losses, [str(e.value) for e in model.numcheck.events if e.name == "note"]


def add_half_and_fail(module: torch.fx.GraphModule, *_: Any, **__: Any) -> Any:
    output = module.graph.output_node()
    with module.graph.inserting_before(output):
        one = module.graph.call_function(torch.ops.aten.ones.default, ([1],))
    output.args = ((one, *output.args[0]),)  # type: ignore[misc]
    raise KeyError("no such node")


def fail(*_: Any) -> Any:
    raise KeyError("no such node")


@pytest.mark.parametrize(
    ("name", "failing"),
    [("tabulate", fail), ("add_extremes", add_half_and_fail)],
    ids=["reading the graph", "writing it, half done"],
)
def test_a_program_whose_graphs_cannot_be_rewritten_runs_as_it_is(
    monkeypatch: pytest.MonkeyPatch, name: str, failing: Callable[..., Any]
) -> None:
    plain, _ = trained("aot_eager", is_watched=False)
    monkeypatch.setattr(backends, name, failing)
    watched, notes = trained("aot_eager", is_watched=True)
    assert watched == plain
    said = [read for note in notes if (read := read_notice(note))]
    assert [(key, fields["phase"]) for key, fields in said] == [
        ("notice.graph_unmeasured", "forward"),
        ("notice.graph_unmeasured", "backward"),
    ]
    assert all(fields["error"] == "KeyError: 'no such node'" for _, fields in said)


class Choosy:
    """A compiler that refuses whatever it has not refused before."""

    def __init__(self) -> None:
        self.has_refused = False
        self.backend = aot_autograd(fw_compiler=self.compile)

    def compile(self, module: torch.fx.GraphModule, _: Any) -> Any:
        self.has_refused = not self.has_refused
        if self.has_refused:
            message = "too many outputs"
            raise RuntimeError(message)
        return make_boxed_func(module.forward)


def test_a_compiler_that_refuses_the_measured_graph_gets_the_program_s_own() -> None:
    plain, _ = trained("aot_eager", is_watched=False)
    watched, notes = trained(Choosy().backend, is_watched=True)
    assert watched == plain
    assert sum("too many outputs" in note for note in notes) == 2
