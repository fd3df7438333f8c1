# SPDX-License-Identifier: Apache-2.0
"""What a training step did outside the optimizer, as a list of events to run again.

Tensors stand in events as slots: values made by an event are held weakly, values from
outside (targets, weights of other models) strongly, because nothing can make them
again.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.record.notice import notice
from numcheck_torch.aside import Aside
from numcheck_torch.capture import Forward, Kept
from numcheck_torch.events import Gradient, Operation, nth_slot, slots_read
from numcheck_torch.graph import reaches
from numcheck_torch.kinds import bytes_of
from numcheck_torch.trees import flat, tensors

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from numcheck_torch.events import Event, Slot

__all__ = ["Program"]

MOST_CALLS = 64
"""Calls of the module after which the oldest of a step are let go of."""

KEPT_BYTES = 16 << 20
"""Most bytes of batches and targets that are kept for one step more."""

_COMPILED = "CompiledFunction"
"""Name of what runs a compiled function; each has a class of its own."""

LONGEST = 20_000
"""Events after which a step is no longer written down: something else runs here."""


class Program:
    """The events of one step so far, and which tensor stands in which slot.

    Args:
        own: identities of the parameters that the program trains.

    Attributes:
        events: in the order they happened.
        externals: values from outside, by slot.
        written: those of them that the program writes; kept as copies.
        constants: those of them that the program made of a single number.
        unscaled: for a root made by a gradient scaler, the slot of the loss itself.
        ungraded: slots of what operators made while gradients were off.
        gap: key of why the program cannot be run again; empty while it can.
        meets_others: whether it reads parameters that it does not train: a critic's,
            whose own loss is none of the program's.
    """

    def __init__(self, own: AbstractSet[int] = frozenset()) -> None:
        self._own = own
        self.events: list[Event] = []
        self.externals: dict[int, Kept] = {}
        self.written: set[int] = set()
        self.constants: set[int] = set()
        self.unscaled: dict[int, int] = {}
        self.ungraded: set[int] = set()
        self.gap = ""
        self.meets_others = False
        self._aside: Aside | None = None
        self.last_scalar: tuple[int, torch.Tensor] | None = None
        self.is_last = False
        self._next = 0
        self._calls = 0
        self._slots: dict[int, tuple[weakref.ref[torch.Tensor], Slot]] = {}

    @property
    def aside(self) -> Aside:
        """Operators that ran meanwhile and that the program may yet read."""
        if self._aside is None:
            self._aside = Aside()
        return self._aside

    @property
    def has_aside(self) -> bool:
        """Whether there are such operators."""
        return self._aside is not None

    def slot(self, tensor: torch.Tensor) -> int | None:
        """Return the slot of a tensor that an event made or used; None for others."""
        found = self._slots.get(id(tensor))
        return found[1].index if found is not None and found[0]() is tensor else None

    def made(self, tensor: torch.Tensor) -> int:
        """Return the slot of a tensor that the present event returned."""
        found = self._slots.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1].index
        index = self._next
        self._next = index + 1
        self._slots[id(tensor)] = weakref.ref(tensor), nth_slot(index)
        return index

    def used(self, tensor: torch.Tensor, *, copied: bool = False) -> Slot:
        """Return the slot of a tensor that the present event reads.

        Args:
            tensor: what it reads.
            copied: keep a copy, because the event also writes it.
        """
        found = self._slots.get(id(tensor))
        if found is not None and found[0]() is tensor:
            index = found[1].index
            if copied and index in self.externals:
                self._copy(index, tensor)
            if index in self.ungraded and tensor.grad_fn is not None:
                self.gap = "refusal.own_autograd_function"
            return found[1]
        if tensor.grad_fn is not None:
            if reaches([tensor], self.live_outputs().values(), self._own):
                self.gap = "refusal.other_graph"
            # Else it is a constant to this program, and its graph none of ours.
            index = self.made(tensor)
            self.externals[index] = Kept.unmarked(tensor.detach())
            return nth_slot(index)
        index = self.made(tensor)
        self.externals[index] = Kept.unmarked(tensor)
        if tensor.requires_grad and id(tensor) not in self._own:
            self.meets_others = True
        if self._aside and not copied and self._aside.is_constant(tensor):
            self.constants.add(index)
        if copied:
            self._copy(index, tensor)
        return nth_slot(index)

    def read(self, tensor: torch.Tensor) -> int:
        """Return the slot of a tensor that the present event reads, as a number."""
        return self.used(tensor).index

    def _copy(self, index: int, tensor: torch.Tensor) -> None:
        """Keep the value of an external that is about to be written."""
        if index not in self.written:
            self.written.add(index)
            self.externals[index] = Kept.unmarked(tensor.detach().clone())

    def _drop_first(self) -> None:
        """Let go of the oldest micro-batch: the batches of a long sum take memory."""
        for i, event in enumerate(self.events):
            if isinstance(event, Gradient):
                del self.events[: i + 1]
                return
        self.events = []
        self.gap = notice("refusal.many_calls", n=MOST_CALLS)

    def unread(self) -> int:
        """Return a new slot for a value that nobody reads."""
        self._next += 1
        return self._next - 1

    def in_slots(
        self, args: tuple[Any, ...], used: Callable[[torch.Tensor], Slot]
    ) -> tuple[Any, ...] | None:
        """Return arguments with slots for tensors; None for a foreign operator.

        The loss's operators mostly read what the last ones made: for those this one
        function takes the place of `concerns` and `used`.

        Args:
            args: of an operator that writes none of them and takes no list of tensors.
            used: gives the slot of a tensor that has none yet.
        """
        slots, new = self._slots, list(args)
        is_concerned, others = False, []
        for i, argument in enumerate(args):
            if isinstance(argument, torch.Tensor):
                found = slots.get(id(argument))
                is_known = found is not None and found[0]() is argument
                is_concerned |= is_known or id(argument) in self._own
                if found is None or not is_known or found[1].index in self.ungraded:
                    others.append(i)
                else:
                    new[i] = found[1]
        if not is_concerned:
            return None
        for i in others:
            new[i] = used(args[i])
        return tuple(new)

    def concerns(self, tensor: torch.Tensor) -> bool:
        """Whether an event that reads `tensor` belongs to the program.

        It does when that is a value of the program's or a parameter it trains. The
        rest (targets made after the call, a random mask, another model's work) need
        not be made again.
        """
        if id(tensor) in self._own:
            return True
        found = self._slots.get(id(tensor))
        return found is not None and found[0]() is tensor

    def is_own(self, tensor: torch.Tensor) -> bool:
        """Whether an event of the program made the tensor."""
        found = self._slots.get(id(tensor))
        return (
            found is not None
            and found[0]() is tensor
            and found[1].index not in self.externals
        )

    def unscale(self, scale: torch.Tensor) -> None:
        """Learn which roots are a loss multiplied by a gradient scaler's scale."""
        scales = {i for i, kept in self.externals.items() if kept.tensor is scale}
        for event in self.events:
            if not isinstance(event, Operation) or len(event.args) != 2:
                continue
            if event.function is not torch.ops.aten.mul.Tensor:
                continue
            slots = [getattr(argument, "index", -1) for argument in event.args]
            if slots[1] in scales:
                self.unscaled[event.outputs[0]] = slots[0]

    @property
    def is_small(self) -> bool:
        """Whether what it was given is small enough to be kept one step longer."""
        size = 0
        for kept in self.externals.values():
            size += bytes_of(kept.tensor)
        for event in self.events:
            if isinstance(event, Forward):
                for kept in event.kept:
                    size += bytes_of(kept.tensor)
        return size <= KEPT_BYTES

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was written down and no tensor has a slot."""
        return not self._next

    @property
    def forwards(self) -> list[Forward]:
        """The calls of the module."""
        return [e for e in self.events if isinstance(e, Forward)]

    @property
    def gradients(self) -> list[Gradient]:
        """The runs of the engine that went into ``.grad``."""
        return [e for e in self.events if isinstance(e, Gradient) and e.accumulates]

    @property
    def hides_loss(self) -> bool:
        """Whether operators of the loss ran, or run again, where nobody sees them."""
        if any(gradient.hides_loss for gradient in self.gradients):
            return True
        functions = (e.function for e in self.events if isinstance(e, Operation))
        owners = (getattr(function, "__self__", None) for function in functions)
        return any(getattr(o, "__name__", "") == _COMPILED for o in owners)

    def is_opaque(self, tensor: Any) -> bool:
        """Whether a tensor has a gradient that the program does not know about.

        So it is for results of autograd functions of the user's own: their operators
        were seen, but ran without gradients.
        """
        if not isinstance(tensor, torch.Tensor) or tensor.grad_fn is None:
            return False
        found = self._slots.get(id(tensor))
        if found is None or found[0]() is not tensor:
            return True
        return found[1].index in self.ungraded

    def reference(self, tensor: torch.Tensor) -> Any:
        """Return the slot of a value an event made, and any other tensor itself."""
        found = self._slots.get(id(tensor))
        if found is None or found[0]() is not tensor:
            return tensor
        return tensor if found[1].index in self.externals else found[1]

    def outputs_of(self, tree: object) -> tuple[int, ...]:
        """Return the slots of the tensors inside what an event returned."""
        found = flat(tree, {}) if isinstance(tree, tuple) else tensors(tree)
        return tuple(map(self.made, found))

    def called(self, event: Forward) -> None:
        """Write down a call of the module."""
        if self._calls >= MOST_CALLS:
            self._drop_first()
            self._calls = len(self.forwards)
        self._calls += 1
        self.append(event)

    def append(self, event: Event) -> None:
        """Write down an event."""
        if len(self.events) < LONGEST:
            self.events.append(event)
        else:
            self.gap = notice("refusal.many_operators", n=LONGEST)

    @property
    def awaits_gradient(self) -> bool:
        """Whether no engine ran since the last call of the module."""
        for event in reversed(self.events):
            if isinstance(event, Gradient):
                return False
            if isinstance(event, Forward):
                return True
        return False

    def prune(self) -> None:
        """Drop the events that no living value and no gradient depends on."""
        alive = [s.index for r, s in self._slots.values() if r() is not None]
        needed: set[int | None] = set(alive)
        kept: list[Event] = []
        for event in reversed(self.events):
            read = slots_read(event)
            if isinstance(event, Gradient) or needed & {*event.outputs, *read}:
                needed |= {*read, *event.outputs}
                kept.append(event)
        self.events = kept[::-1]
        used = {slot for event in self.events for slot in slots_read(event)}
        self.externals = {s: k for s, k in self.externals.items() if s in used}

    def ensure_runnable(self) -> None:
        """Check that the program can be run again.

        Raises:
            CannotRunError: it is incomplete, or what it was given was overwritten.
        """
        if self.gap and not any(g.hides_loss for g in self.gradients):
            raise CannotRunError(self.gap)
        if not self.forwards:
            raise CannotRunError("refusal.uncalled")
        kept = [k for f in self.forwards for k in f.kept]
        if not all(k.is_unchanged for k in kept):
            raise CannotRunError("refusal.batch_overwritten")

    def live_outputs(self) -> dict[int, torch.Tensor]:
        """Return what the module returned and can be differentiated, by slot."""
        slots = {slot for forward in self.forwards for slot in forward.outputs}
        found = ((slot.index, ref()) for ref, slot in self._slots.values())
        return {
            i: t for i, t in found if i in slots and t is not None and t.requires_grad
        }

    @property
    def pending_loss(self) -> int | None:
        """Slot of what may be the loss where nothing was differentiated.

        It is the last scalar that an operator made and that somebody still holds; at
        the end of the run, when nobody may hold anything, the last one made.
        """
        for event in reversed(self.events):
            for slot in reversed(event.outputs if isinstance(event, Operation) else ()):
                tensor = self.tensor(slot)
                if tensor is not None and _may_be_loss(tensor):
                    return slot
        return self.last_scalar[0] if self.is_last and self.last_scalar else None

    def tensor(self, slot: int) -> torch.Tensor | None:
        """Return the tensor in a slot while the program still holds it."""
        return next((r() for r, i in self._slots.values() if i.index == slot), None)


def _may_be_loss(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 0 and tensor.requires_grad and tensor.is_floating_point()
