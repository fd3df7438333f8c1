# SPDX-License-Identifier: Apache-2.0
"""Writes down the operators between a module's output and the gradient.

The tape is a dispatch mode at the *bottom* of the stack, so that modes the user enters
and leaves meanwhile keep their order. It holds no intermediate value: only slots, and
tensors that came from outside. While the module itself or the autograd engine runs,
the tape is off the stack and costs nothing.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from numcheck_torch import modes
from numcheck_torch.capture import RandomState
from numcheck_torch.dispatch import UntracedMode
from numcheck_torch.events import Operation
from numcheck_torch.higher_order import is_higher_order
from numcheck_torch.places import nearest_place
from numcheck_torch.trees import map_tensors, tensors
from numcheck_torch.versions import LeavesCompiled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numcheck_torch.events import Slot
    from numcheck_torch.program import Program

__all__ = ["LossTape"]

_SILENT = frozenset({"profiler", "prim", "debug_mode_ops"})
# What these make does not depend on the values they read; it is a constant.
_SINGLE = frozenset({"Tensor", "Optional[Tensor]"})
_CONSTANT = frozenset({"ones_like", "zeros_like", "full_like", "empty_like"})
_NO_NAMES: Final[Mapping[str, Any]] = {}


class LossTape(LeavesCompiled, UntracedMode):
    """Appends each operator that runs while it is on the stack to a `Program`.

    Args:
        program: where operators are written down.
        fault: called in an ``except`` block when that fails.
        owner: gives None once nobody is left who could go on with the step.
    """

    def __init__(
        self,
        program: Program,
        fault: Callable[[str], None],
        owner: Callable[[], object],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.program = program
        self._fault = fault
        self._owner = owner
        tape = weakref.ref(self)
        # A worker process forked while the tape is on would write down its own work.
        os.register_at_fork(after_in_child=lambda: _leave(tape()))

    @property
    def is_over(self) -> bool:
        """Whether it has no place on any stack any more."""
        return self._owner() is None

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the operator and write it down, if it belongs to the program."""
        kwargs = kwargs or {}
        plan = _PLANS.get(id(func)) or _plan(func)
        run = plan.run
        if (
            plan.is_silent
            or self._owner() is None
            or torch._C._current_graph_task_id() != -1
        ):
            return run(*args, **kwargs)
        named = _NO_NAMES
        try:
            if plan.is_flat and not kwargs:
                slots = self.program.in_slots(args, self._used)
            else:
                slots, named = self._slots(plan, args, kwargs)
            random = RandomState.now() if plan.draws and slots is not None else None
        except Exception:  # noqa: BLE001 - the user's loss must run whatever happens
            self._gave_up()
            return run(*args, **kwargs)
        out = run(*args, **kwargs)
        try:
            if slots is not None:
                self._write(func, slots, named, random, out)
            elif not plan.draws and not plan.written:
                self._set_aside(func, args, kwargs, out)
            if plan.written and self.program.has_aside:
                self.program.aside.clear()
        except Exception:  # noqa: BLE001 - as above
            self._gave_up()
        return out

    def _set_aside(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        place = nearest_place(sys._getframe(2))
        grad = torch.is_grad_enabled()
        self.program.aside.add(func, args, kwargs, out, grad=grad, place=place)

    def _slots(
        self, plan: _Plan, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...] | None, Mapping[str, Any]]:
        """Return the arguments with slots for tensors; None for a foreign operator."""
        used, written = self._used, plan.written
        if not any(map(self.program.concerns, tensors((args, kwargs)))):
            return None, _NO_NAMES

        def stand_in(argument: Any, key: int | str) -> Any:
            if isinstance(argument, torch.Tensor):
                return used(argument, copied=key in written)
            if isinstance(argument, list | tuple):
                copied = key in written
                return map_tensors(argument, lambda t: used(t, copied=copied))
            return argument

        new = tuple([stand_in(a, i) for i, a in enumerate(args)])
        return new, {k: stand_in(a, k) for k, a in kwargs.items()}

    def _used(self, tensor: torch.Tensor, *, copied: bool = False) -> Slot:
        """Return the slot of a tensor, after the operators aside that made it."""
        program = self.program
        if program.has_aside and program.slot(tensor) is None:
            self._bring_in(tensor)
        return program.used(tensor, copied=copied)

    def _bring_in(self, tensor: torch.Tensor) -> None:
        """Write down the operator that made a tensor beside the program, if known."""
        program = self.program
        waiting = program.aside.take(tensor) if program.has_aside else None
        if waiting is None:
            return
        args, kwargs = map_tensors((waiting.args, waiting.kwargs), self._used)
        made = [ref() for ref in waiting.made]
        slots = tuple(program.unread() if t is None else program.made(t) for t in made)
        event = Operation(
            waiting.function, args, kwargs, slots, waiting.grad, None, waiting.place
        )
        program.append(event)

    def _write(
        self,
        func: Any,
        slots: tuple[Any, ...],
        named: Mapping[str, Any],
        random: RandomState | None,
        out: Any,
    ) -> None:
        program, grad = self.program, torch.is_grad_enabled()
        if isinstance(out, torch.Tensor):
            outputs: tuple[int, ...] = (program.made(out),)
            if grad and out.dim() == 0 and out.is_floating_point():
                program.last_scalar = outputs[0], out.detach()
        else:
            outputs = program.outputs_of(out)
        place = nearest_place(sys._getframe(2))
        if not grad:
            program.ungraded.update(outputs)
        event = Operation(func, slots, named, outputs, grad, random, place)
        program.append(event)

    def _gave_up(self) -> None:
        self.program.gap = "refusal.loss_unwritten"
        self._fault("fault.tape")


def _leave(tape: LossTape | None) -> None:
    if tape is not None:
        modes.remove(tape)


class _Plan(NamedTuple):
    """What is fixed about an operator.

    Attributes:
        operator: itself; held, so that no other has its id.
        run: calls it.
        is_silent: it is never written down.
        draws: it reads random numbers.
        written: positions and names of the arguments it writes to.
        is_flat: it writes to none, and takes no list of tensors.
    """

    operator: Any
    run: Callable[..., Any]
    is_silent: bool
    draws: bool
    written: frozenset[int | str]
    is_flat: bool


_PLANS: Final[dict[int, _Plan]] = {}
"""By the operator's id: its own hash runs code."""


def _plan(func: Any) -> _Plan:
    """Return an operator's plan, made the first time it is asked for."""
    if is_higher_order(func):
        # What it computes of which operand, and whether it draws, is for it to know.
        plan = _Plan(
            func, func, is_silent=False, draws=True, written=frozenset(), is_flat=False
        )
        _PLANS[id(func)] = plan
        return plan
    written: set[int | str] = set()
    is_flat = True
    for i, argument in enumerate(func._schema.arguments):
        kind = str(argument.type)
        is_flat &= "Tensor" not in kind or kind in _SINGLE
        if argument.alias_info is not None and argument.alias_info.is_write:
            written |= {i, argument.name}
    draws = torch.Tag.nondeterministic_seeded in func.tags
    name = func._schema.name.partition("::")[2]
    is_silent = func.namespace in _SILENT or name in _CONSTANT
    # Of its two layers the outer one only calls the inner one.
    run = func._op if type(func) is torch._ops.OpOverload else func
    is_flat = is_flat and not written
    plan = _Plan(func, run, is_silent, draws, frozenset(written), is_flat)
    _PLANS[id(func)] = plan
    return plan
