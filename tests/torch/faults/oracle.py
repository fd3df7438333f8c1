# SPDX-License-Identifier: Apache-2.0
"""Says, with nothing of numcheck's, which operators make a NaN or an Inf.

A value is born where an operator's output has a NaN and no operand has one, or an Inf
and no operand has a NaN or an Inf. Memory that was never written counts for nothing.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "# fault"


class Birth(NamedTuple):
    """An operator that made a bad value, and when."""

    op: str
    phase: str


class Births(TorchDispatchMode):
    """Notes every birth of whatever runs inside, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.births: list[Birth] = []
        self.phase = "forward"

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        before = held(args, given)
        out = func(*args, **given)
        is_written = not func.__name__.startswith(("empty", "new_empty"))
        after = held(out, args, given)  # it may write to what it was given
        if is_written and after - before and "nan" not in before:
            self.births.append(Birth(str(func), self._phase()))
        return out

    def _phase(self) -> str:
        in_engine = torch._C._current_graph_task_id() != -1
        return "backward" if in_engine else self.phase


def held(*trees: Any) -> set[str]:
    """Returns which of ``nan`` and ``inf`` the tensors and numbers hold."""
    found: set[str] = set()
    for leaf in tree_leaves(trees):
        if isinstance(leaf, float):
            found |= {"nan"} if math.isnan(leaf) else set()
            found |= {"inf"} if math.isinf(leaf) else set()
        elif isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            found |= {"nan"} if bool(leaf.isnan().any()) else set()
            found |= {"inf"} if bool(leaf.isinf().any()) else set()
    return found


def marked_line(function: Callable[..., Any]) -> int:
    """Returns the number of the line of a function's source that is marked."""
    lines, first = inspect.getsourcelines(function)
    (offset,) = [i for i, line in enumerate(lines) if line.rstrip().endswith(MARK)]
    return first + offset
