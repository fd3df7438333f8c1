# SPDX-License-Identifier: Apache-2.0
"""Dynamo must not compile what a dispatch mode of ours does for an operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from numcheck_torch.dispatch import UntracedMode
from numcheck_torch.versions import LeavesCompiled


def _ran(operator: Any, args: Any, kwargs: Any) -> Any:
    return operator(*args, **(kwargs or {}))


class _Untraced(LeavesCompiled, UntracedMode):
    """As the tape of the loss does: it calls functions of its own."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _ran(func, args, kwargs)


class _Traced(LeavesCompiled, TorchDispatchMode):
    """The same without any protection, to show that this test can fail."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _ran(func, args, kwargs)


@torch._dynamo.disable(recursive=False)
def _left_alone(x: torch.Tensor) -> torch.Tensor:
    return x.sin().cos()


@pytest.mark.parametrize(("mode", "graphs"), [(_Untraced, 2), (_Traced, 4)])
def test_an_operator_between_two_graphs_compiles_nothing_of_the_mode(
    mode: type[TorchDispatchMode], graphs: int
) -> None:
    compiled = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph

    def program(x: torch.Tensor) -> torch.Tensor:
        return _left_alone(x + 1) * 2

    x = torch.linspace(0, 1, 5)
    torch._dynamo.reset()
    with mode():
        out = torch.compile(program, backend=backend)(x)
    assert torch.equal(out, program(x))
    assert len(compiled) == graphs
