# SPDX-License-Identifier: Apache-2.0
"""Operators that ran beside the program, in case the program reads what they made.

A loss prepares its targets with operators that read nothing of the model: a mean of
the labels, a count of valid tokens. Whether they belong to the program shows only when
it reads their result. Until then they wait here, small ones only, and what nobody
reads (another model's work, a metric) never joins.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from numcheck_torch.kinds import bytes_of
from numcheck_torch.trees import tensors

if TYPE_CHECKING:
    from numcheck_torch.places import Place

__all__ = ["Aside", "Waiting"]

_aten = torch.ops.aten
_CONSTANTS = frozenset(
    {
        _aten.zeros.default,
        _aten.ones.default,
        _aten.full.default,
        _aten.scalar_tensor.default,
    }
)
"""Operators that give one number in every element, whatever the batch."""
_MOST_OPERATORS = 512
_MOST_BYTES = 4 << 20
"""Bytes that may be held for operators which the program may never read."""


class Waiting(NamedTuple):
    """An operator that has run, with what it read and made.

    Attributes:
        function: the operator.
        args: its arguments.
        kwargs: its keyword arguments.
        made: the tensors it returned, held weakly.
        grad: whether gradients were being tracked.
        place: the user's line.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: tuple[weakref.ref[torch.Tensor], ...]
    grad: bool
    place: Place | None


class Aside:
    """The operators that wait, by the tensors they made."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._constants: weakref.WeakValueDictionary[int, torch.Tensor]
        self._constants = weakref.WeakValueDictionary()
        self._bytes = 0

    def add(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Any,
        *,
        grad: bool,
        place: Place | None,
    ) -> None:
        """Let an operator wait, if it is small and nothing about it has a graph.

        One that reads no tensor only gives a constant, which is as good from outside.
        """
        read, made = list(tensors((args, kwargs))), list(tensors(out))
        if function in _CONSTANTS:
            self._constants.update((id(t), t) for t in made)
        size = sum(map(bytes_of, (*read, *made)))
        is_full = len(self._waiting) >= _MOST_OPERATORS
        if not read or is_full or self._bytes + size > _MOST_BYTES:
            return
        if any(t.requires_grad for t in (*read, *made)):
            return
        self._bytes += size
        held = tuple(map(weakref.ref, made))
        waiting = Waiting(function, args, kwargs, held, grad, place)
        self._waiting.update((id(t), waiting) for t in made)

    def take(self, tensor: torch.Tensor) -> Waiting | None:
        """Return the operator that made a tensor, which then no longer waits."""
        found = self._waiting.get(id(tensor))
        if found is None:
            return None
        made = [ref() for ref in found.made]
        if not any(t is tensor for t in made):
            return None
        for known in made:
            if known is not None:
                self._waiting.pop(id(known), None)
        return found

    def is_constant(self, tensor: torch.Tensor) -> bool:
        """Whether the program made a tensor of one number and left it so."""
        return self._constants.get(id(tensor)) is tensor

    def clear(self) -> None:
        """Forget all: something wrote to memory that they may have read."""
        self._constants.clear()
        self._waiting.clear()
        self._bytes = 0
