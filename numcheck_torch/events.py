# SPDX-License-Identifier: Apache-2.0
"""What happens in a training step outside the optimizer, one event each.

An event is a call of the watched module (`Forward`), an operator of the loss
(`Operation`) or a run of the autograd engine (`Gradient`). Tensors stand in it as
slots.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from numcheck_torch.capture import Forward
from numcheck_torch.trees import map_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from numcheck_torch.capture import Autocast, RandomState
    from numcheck_torch.places import Place

__all__ = ["Event", "Gradient", "Operation", "Slot", "nth_slot", "slots_read"]


class Slot:
    """Stands for a tensor in an event's arguments; a leaf, unlike a dataclass."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


_slots: Final[dict[int, Slot]] = {}


def nth_slot(index: int) -> Slot:
    """Return the slot of a number; the same for every program.

    Example:
        >>> nth_slot(3).index, nth_slot(3) is nth_slot(3)
        (3, True)
    """
    # Programs of several threads ask at once: each number is one slot for all.
    return _slots.get(index) or _slots.setdefault(index, Slot(index))


@dataclasses.dataclass(slots=True)
class Operation:
    """One operator between the module's output and the gradient.

    Attributes:
        function: the operator, or a loss function that is watched as a whole.
        args: its arguments, tensors as `Slot`.
        kwargs: its keyword arguments, likewise.
        outputs: slots of the tensors it returned.
        grad: whether gradients were being tracked.
        random: random state before an operator that draws from it.
        place: the user's line.
        autocast: mixed precision at the call of a watched loss function; an operator
            has its casts behind it.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[int, ...]
    grad: bool
    random: RandomState | None
    place: Place | None
    autocast: Autocast | None = None


@dataclasses.dataclass(slots=True)
class Gradient:
    """One run of the autograd engine.

    Attributes:
        roots: slots of what was differentiated: the loss, as a rule.
        seeds: gradients at the roots.
        inputs: slots of what it was differentiated by; empty for every leaf.
        retains: whether the graph was kept for another run.
        creates: whether the gradients can be differentiated again.
        accumulates: whether they went into ``.grad``.
        outputs: slots of the gradients returned where they did not.
        values: values of what was differentiated.
        hides_loss: whether the roots are the module's outputs, because the loss
            itself could not be followed.
    """

    roots: tuple[int, ...]
    seeds: tuple[Any, ...]
    inputs: tuple[int, ...]
    retains: bool
    creates: bool
    accumulates: bool
    outputs: tuple[int | None, ...]
    values: tuple[torch.Tensor, ...]
    hides_loss: bool = False


Event = Forward | Operation | Gradient


def slots_read(event: Event) -> set[int]:
    """Return the slots an event reads."""
    if isinstance(event, Gradient):
        return {*event.roots, *event.inputs}
    found: set[int] = set()

    def note(leaf: Any) -> Any:
        if isinstance(leaf, Slot):
            found.add(leaf.index)
        return leaf

    map_leaves((event.args, event.kwargs), note)
    return found
