# SPDX-License-Identifier: Apache-2.0
"""Gradients that the engine hands out, for an update that is written by hand."""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

from numcheck_torch import modes
from numcheck_torch.looking import Looking
from numcheck_torch.sentinel import look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numcheck_torch.engine import EngineRun
    from numcheck_torch.program import Program
    from numcheck_torch.sentinel import Reading

__all__ = ["HandedOut", "Writes"]

_Named = list[tuple[str, torch.Tensor]]


class Writes:
    """How often a module's parameters are written to from now on.

    Parameters that get their values, or their place in the module, later are left out.

    Example:
        >>> layer = torch.nn.Linear(1, 1)
        >>> writes = Writes(layer)
        >>> torch.nn.init.zeros_(layer.bias).sum().item(), writes.most()
        (0.0, 1)
    """

    def __init__(self, model: torch.nn.Module) -> None:
        lazy: Callable[[Any], bool] = is_lazy
        self._known = [
            (weakref.ref(p), p._version)
            for p in model.parameters()
            if not (lazy(p) or p.is_inference())
        ]

    def most(self) -> int:
        """Return how often the parameter written to most often was."""
        living = ((r(), version) for r, version in self._known)
        return max((p._version - v for p, v in living if p is not None), default=0)


@dataclasses.dataclass(slots=True)
class _Doubt:
    """A step whose gradients are bad, which matters only if somebody uses them.

    Attributes:
        step: its number.
        program: what it did.
        reading: what was seen of it.
        gradients: (name, gradient) of each parameter.
        before: (parameter, copy of its values before the update).
    """

    step: int
    program: Program
    reading: Reading
    gradients: _Named
    before: Sequence[tuple[torch.Tensor, torch.Tensor]]

    @contextlib.contextmanager
    def taken_back(self) -> Iterator[None]:
        """Run a block with the parameters as they were before the update."""
        now = [parameter.data for parameter, _ in self.before]
        try:
            for parameter, values in self.before:
                parameter.data = values
            yield
        finally:
            for (parameter, _), values in zip(self.before, now, strict=True):
                parameter.data = values


class HandedOut(Looking):
    """A monitor that looks at gradients that nobody accumulates.

    A bad loss is told at once. A bad gradient is none of the program's faults as long
    as it may yet be thrown away, so it is told when the parameters show that it was
    used: at the next call, or at the end.
    """

    _doubt: _Doubt | None = None
    _writes: Writes

    def _tell_unheard(self) -> None:
        """Say at the end where a training was made of which no step was heard."""
        is_heard = self.step or self._fleet.stepped or self.incidents
        # Written to once, they may have been loaded.
        if not is_heard and self._writes.most() > 1:
            self.observe(note="notice.update_unheard")

    def _takes(self, run: EngineRun, result: Sequence[Any]) -> bool:
        """Take a run of the engine for the end of a step, where it is one.

        It is where it hands out the gradients of all that is trained, and leaves no
        graph to go on with: penalties, inner steps and second derivatives do.
        """
        if run.accumulates or run.creates or run.retains or len(run.inputs) == 0:
            return False
        found = {id(p): g for p, g in zip(run.inputs, result, strict=False)}
        trained = [(n, p) for n, p in self._parameters.named(self.step)]
        trained = [(n, p) for n, p in trained if p.requires_grad]
        if len(found) != len(trained) or not all(id(p) in found for _, p in trained):
            return False
        pairs = ((name, found[id(p)]) for name, p in trained)
        self._handed = [(name, g) for name, g in pairs if g is not None]
        return self._window.hand_out()

    def _doubts(self, reading: Reading) -> bool:
        """Whether to wait and see what becomes of a step's bad gradients."""
        if not self._handed or "loss" in reading.bad or reading.checked:
            return False
        named = self._parameters.named(self.step)
        before = [(p, p.detach().clone()) for _, p in named]
        self._doubt = _Doubt(
            self.step, self.program, reading, list(self._handed), before
        )
        return True

    def _settle_doubt(self) -> None:
        """Tell of bad gradients that were used, as the parameters show."""
        doubt, self._doubt = self._doubt, None
        if doubt is None:
            return
        used = modes.outside(look, [*self.model.named_parameters()], [])
        if used.is_healthy:
            return
        self._earlier = doubt.step, doubt.program
        with doubt.taken_back(), self._as_of(doubt.step):
            self._handed = doubt.gradients
            try:
                self._failed(doubt.reading)
            finally:
                self._handed = []
