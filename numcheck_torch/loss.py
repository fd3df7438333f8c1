# SPDX-License-Identifier: Apache-2.0
"""Writes down the operators between a module's output and the gradient.

The tape is a dispatch mode at the *bottom* of the stack, so that modes the user enters
and leaves meanwhile keep their order. It holds no intermediate value: only slots, and
tensors that came from outside. While the module itself or the autograd engine runs,
the tape is off the stack and costs nothing.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from numcheck_torch.capture import RandomState
from numcheck_torch.places import nearest_place
from numcheck_torch.program import Operation, Slot
from numcheck_torch.trees import map_tensors

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck_torch.program import Program

__all__ = ["LossTape"]

_SILENT = frozenset({"profiler", "prim", "debug_mode_ops"})


class LossTape(TorchDispatchMode):
    """Appends each operator that runs while it is on the stack to a `Program`."""

    def __init__(self, program: Program, fault: Callable[[str], None]) -> None:
        """Make a tape that is off the stack.

        Args:
            program: where operators are written down.
            fault: called in an ``except`` block when that fails.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.program = program
        self._fault = fault
        self._pid = os.getpid()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled functions run compiled while the tape is on the stack."""
        return True

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the operator and write it down."""
        kwargs = kwargs or {}
        if (
            func.namespace in _SILENT
            or torch._C._current_graph_task_id() != -1
            or os.getpid() != self._pid
            or not self.program.concerns((args, kwargs))
        ):
            return func(*args, **kwargs)
        try:
            slots = self._slots(func, args, kwargs)
            random = RandomState.now() if _draws(func) else None
        except Exception:  # noqa: BLE001 - the user's loss must run whatever happens
            self._gave_up()
            return func(*args, **kwargs)
        out = func(*args, **kwargs)
        try:
            self._write(func, slots, random, out)
        except Exception:  # noqa: BLE001 - as above
            self._gave_up()
        return out

    def _slots(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Any]:
        written = _written(func)
        new = [self._stand_in(a, copied=i in written) for i, a in enumerate(args)]
        named = {k: self._stand_in(a, copied=k in written) for k, a in kwargs.items()}
        return tuple(new), named

    def _stand_in(self, argument: Any, *, copied: bool) -> Any:
        used = self.program.used
        return map_tensors(argument, lambda t: Slot(used(t, copied=copied)))

    def _write(
        self, func: Any, slots: Any, random: RandomState | None, out: Any
    ) -> None:
        self.program.append(
            Operation(
                function=func,
                args=slots[0],
                kwargs=slots[1],
                outputs=self.program.outputs_of(out),
                grad=torch.is_grad_enabled(),
                random=random,
                place=nearest_place(sys._getframe(2)),
            )
        )

    def _gave_up(self) -> None:
        self.program.gap = "an operator of the loss could not be written down"
        self._fault("the tape of the loss")


@functools.cache
def _draws(func: Any) -> bool:
    """Whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags


@functools.cache
def _written(func: Any) -> frozenset[int | str]:
    """Return positions and names of the arguments that an operator writes."""
    found: set[int | str] = set()
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found |= {i, argument.name}
    return frozenset(found)
