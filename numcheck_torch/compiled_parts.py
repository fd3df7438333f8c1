# SPDX-License-Identifier: Apache-2.0
"""The compiled forms of what is watched, and what they say of themselves.

Observing a compiled module compiles it a second time, so that is done where every step
is recorded, and where a replay operator by operator tells another story.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING

from numcheck_torch.scope import is_compiled
from numcheck_torch.unwrap import core_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from numcheck_torch.compile import Observer

__all__ = ["CompiledParts"]


class CompiledParts:
    """The modules that a watched program calls, where they run compiled.

    Args:
        are_recorded: observe them from now on, for a recording of every step.
        path: gives the path of a module in what is watched.

    Attributes:
        observer: hears of the graphs' runs; None while nobody observes.
    """

    def __init__(
        self, *, are_recorded: bool, path: Callable[[torch.nn.Module], str]
    ) -> None:
        self._path = path
        self.observer: Observer | None = None
        self._are_recorded = are_recorded
        self._called: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._observed: set[int] = set()
        self._open = contextlib.ExitStack()
        self._told = 0

    def attach(self, module: torch.nn.Module) -> None:
        """Learn of a module that is called: the watched one, or a form of it."""
        core = core_of(module)
        known = self._called.get(id(core))
        if known is None or known() in (None, core):
            self._called[id(core)] = weakref.ref(module)
        if (
            self._are_recorded
            and id(core) not in self._observed
            and is_compiled(module)
        ):
            from numcheck_torch.compile import observed

            self._observed.add(id(core))
            self.observer = self._open.enter_context(
                observed(module, self.observer, self._path(core))
            )

    @property
    def is_any(self) -> bool:
        """Whether anything that is called runs compiled."""
        return any(map(is_compiled, self._modules()))

    def called(self, core: torch.nn.Module) -> torch.nn.Module:
        """Return what the program calls where a replay calls the bare module."""
        reference = self._called.get(id(core))
        form = None if reference is None else reference()
        # Distributed forms would wait for other processes.
        return form if form is not None and is_compiled(form) else core

    @contextlib.contextmanager
    def observed(self) -> Iterator[Observer]:
        """Observe what is compiled inside the block."""
        if self.observer is not None:
            yield self.observer
            return
        from numcheck_torch.compile import Observer, observed

        observer = Observer()
        with contextlib.ExitStack() as stack:
            for module in filter(is_compiled, self._modules()):
                path = self._path(core_of(module))
                stack.enter_context(observed(module, observer, path))
            yield observer

    def news(self) -> list[str]:
        """Return what is not covered and was not told before."""
        notes = [] if self.observer is None else self.observer.notes
        found, self._told = notes[self._told :], len(notes)
        return found

    def close(self) -> None:
        """Leave the program's compiled code as it was."""
        self.observer = None
        self._open.close()

    def _modules(self) -> list[torch.nn.Module]:
        found = [reference() for reference in self._called.values()]
        return [module for module in found if module is not None]
