# SPDX-License-Identifier: Apache-2.0
"""Which forward operator a backward operator belongs to.

Autograd numbers its nodes. A node is made just before its forward operator is
dispatched, so inside the dispatch the operator's own number is the counter less one;
while the node runs backward it still carries that number.
"""

from __future__ import annotations

import bisect
import sys
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.utils.checkpoint
from torch.autograd import _make_grads
from torch.autograd.graph import _engine_run_backward

if TYPE_CHECKING:
    from collections.abc import Container
    from types import CodeType, FrameType

    from numcheck.record.site import Phase

__all__ = [
    "ForwardIndex",
    "autograd_phase",
    "current_task",
    "is_engine",
    "is_in_engine",
]

current_task: Final = torch._C._current_graph_task_id
current_node: Final[Any] = torch._C._current_autograd_node
_next_number: Final = torch._C._autograd._get_sequence_nr
# Nodes that no forward operator made (gradient accumulation) carry the largest number.
_NO_NUMBER: Final = 1 << 63
_CHECKPOINT: Final = (torch.utils.checkpoint.__file__,)
_AGAIN: Final = (*_CHECKPOINT, torch.nn.modules.module.__file__)
"""What runs a forward again: a checkpoint, or a module called while going backward."""


def autograd_phase(*, in_module: bool, outer: int = -1) -> Phase | None:
    """Return backward or recompute while the autograd engine runs, else None.

    Gradients are enabled inside the engine where a checkpoint runs its forward again,
    and where the gradient itself will be differentiated, as one that a module takes in
    its forward.

    Args:
        in_module: whether a module's forward is running, in the engine or around it.
        outer: run of the engine from inside which all this is run again.
    """
    if not is_in_engine(outer):
        return "backward" if _is_seeding() else None
    if torch.is_grad_enabled():
        again = _is_under(_AGAIN)
    else:  # inside an autograd function that a module calls, or a gradient of its own
        again = in_module and _is_under(_CHECKPOINT)
    return "recompute" if again else "backward"


def is_in_engine(outer: int = -1) -> bool:
    """Whether the autograd engine is running nodes, other than those of `outer`."""
    return current_task() not in (-1, outer)


def _is_seeding() -> bool:
    """Whether `backward` is making the gradient it starts from."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_dispatch(frame):
        frame = frame.f_back
    return frame is not None and frame.f_code is _make_grads.__code__


def _is_dispatch(frame: FrameType) -> bool:
    """Whether a frame only hands an operator to a dispatch mode."""
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(("numcheck", "torch._compile", "torch._dynamo"))


def _is_under(files: Container[str]) -> bool:
    """Whether code of one of these files runs inside the engine."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_engine(frame.f_code):
        if frame.f_code.co_filename in files:
            return True
        frame = frame.f_back
    return False


def is_engine(code: CodeType) -> bool:
    """Whether a frame is the call that runs the autograd engine."""
    return code is _engine_run_backward.__code__


class ForwardIndex:
    """Remembers forward operators' sites by autograd number."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._sites: list[int] = []

    def note(self, site: int) -> None:
        """Remember the operator that is being dispatched, the first of its number."""
        number = _next_number() - 1
        if not self._numbers or number > self._numbers[-1]:
            self._numbers.append(number)
            self._sites.append(site)

    def current(self) -> int | None:
        """Return the forward site of the node that runs backward now, if known.

        The node of a view's in-place write is numbered one above its operator's, so
        the nearest number below counts.
        """
        node = current_node()
        if node is None:
            return None
        number = node._sequence_nr()
        at = bisect.bisect_right(self._numbers, number) - 1
        return None if number >= _NO_NUMBER or at < 0 else self._sites[at]
