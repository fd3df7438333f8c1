# SPDX-License-Identifier: Apache-2.0
"""Finds what an unmodified program trains, and watches it.

An optimizer says which parameters are trained; the modules alive at that moment that
hold them get a small ear each. The first of them that is called with gradients on is
the outermost of its call: that one is watched, and the ears inside it are taken off
before anything is compiled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from numcheck.errors import NonFiniteError
from numcheck_torch import doors
from numcheck_torch.instrumentation import instrument
from numcheck_torch.living import living
from numcheck_torch.monitor import TorchMonitor
from numcheck_torch.optimizers import parameters_of, trains

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.utils.hooks import RemovableHandle

    from numcheck.options import Options

__all__ = ["watching"]

_MADE = (torch.optim.Optimizer, "__init__")
_COMPILED = (torch, "compile")
_MOST_ALIVE = 4
"""Models kept alive until the end, so that a failure of their last step is told."""


@contextlib.contextmanager
def watching(options: Options) -> Iterator[Sequence[TorchMonitor]]:
    """Watch whatever is trained inside the block.

    Args:
        options: how to watch.

    Yields:
        The monitors, which join as models are found.

    Example:
        >>> from numcheck.options import Options
        >>> with watching(Options()) as monitors:
        ...     model = torch.nn.Linear(2, 1)
        ...     sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     model(torch.ones(3, 2)).sum().backward()
        ...     sgd.step()
        >>> [monitor.findings for monitor in monitors]
        [()]
    """
    finder = _Finder(options)
    try:
        yield finder.monitors
    finally:
        finder.close()


@dataclasses.dataclass(slots=True)
class _Watched:
    """What one monitor watches, alive."""

    modules: list[torch.nn.Module]
    monitor: TorchMonitor

    def holds(self, module: torch.nn.Module) -> bool:
        return any(module is m for root in self.modules for m in root.modules())

    def is_inside(self, module: torch.nn.Module) -> bool:
        inner = set(module.modules())
        return all(m in inner for m in self.modules)

    def shares(self, optimizers: list[torch.optim.Optimizer]) -> bool:
        own = {id(p) for module in self.modules for p in module.parameters()}
        return any(trains(optimizer, own) for optimizer in optimizers)


class _Ear:
    """Hears the first call of a module; a copy of the module hears nothing."""

    def __init__(self, finder: _Finder, module: torch.nn.Module) -> None:
        self._finder = weakref.ref(finder)
        self._module = weakref.ref(module)

    def __call__(self, module: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return
        finder = self._finder()
        watched = self._module()
        if finder is not None and watched is not None and module is watched:
            finder.called(watched, args, kwargs)

    def __deepcopy__(self, memo: Any) -> _Ear:
        return self

    def __reduce__(self) -> Any:
        return _deaf, ()


def _deaf() -> Any:
    """Return the ear of a module that was pickled."""
    return lambda *_: None


class _Finder:
    """Knows the optimizers of the program and the modules they train.

    Args:
        options: how to watch what is found.
    """

    def __init__(self, options: Options) -> None:
        self.monitors: list[TorchMonitor] = []
        self._options = options
        self._optimizers: list[weakref.ref[torch.optim.Optimizer]] = []
        self._ears: dict[int, RemovableHandle] = {}
        self._watched: list[_Watched] = []
        doors.listen(*_MADE, after=self._made)
        doors.listen(*_COMPILED, after=self._compiled)

    def close(self) -> None:
        """Take every ear off and close the monitors; what they found stays theirs."""
        for owner, name in (_MADE, _COMPILED):
            doors.unlisten(owner, name, self)
        for handle in self._ears.values():
            handle.remove()
        for monitor in self.monitors:
            with contextlib.suppress(NonFiniteError):
                monitor.close()
        self._watched.clear()

    def called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """Hear that a module is called for training; watch it from this call on."""
        self._deafen(module)
        if any(one.holds(module) for one in self._watched):
            return
        monitor = self._watch(module)
        monitor.before_call(module, args, kwargs, sys._getframe(2))

    # --- finding ---

    def _made(self, args: tuple[Any, ...], kwargs: Any, result: Any) -> None:
        """Listen at the modules of an optimizer just made."""
        optimizer = args[0]
        self._optimizers.append(weakref.ref(optimizer))
        for module in _owners({id(p) for p in parameters_of(optimizer)}):
            if any(one.holds(module) for one in self._watched):
                continue
            if module.__dict__.get("_compiled_call_impl") is not None:
                # An ear would become part of the compiled region.
                self._deafen(module)
                self._watch(module)
            else:
                self._listen(module)

    def _compiled(self, args: tuple[Any, ...], kwargs: Any, result: Any) -> Any:
        """Follow a module into its compiled form."""
        subject: Any = args[0] if args else kwargs.get("model")
        owner: Any = getattr(subject, "__self__", None)
        if id(subject) in self._ears and isinstance(result, torch.nn.Module):
            self._listen(result)
        elif id(owner) in self._ears:
            self._deafen(owner)
            return self._watch(owner).hooks._compiled(args, kwargs, result)
        return None

    def _listen(self, module: torch.nn.Module) -> None:
        if id(module) not in self._ears:
            self._ears[id(module)] = module.register_forward_pre_hook(
                _Ear(self, module), prepend=True, with_kwargs=True
            )

    def _deafen(self, module: torch.nn.Module) -> None:
        for inner in module.modules():
            handle = self._ears.pop(id(inner), None)
            if handle is not None:
                handle.remove()

    # --- watching ---

    def _watch(self, module: torch.nn.Module) -> TorchMonitor:
        """Watch a module, together with those its optimizers train beside it."""
        own = {id(p) for p in module.parameters()}
        made = [o for r in self._optimizers if (o := r()) is not None]
        optimizers = [o for o in made if trains(o, own)]
        relatives = [
            one
            for one in self._watched
            if one.is_inside(module) or one.shares(optimizers)
        ]
        modules = [
            m for one in relatives if not one.is_inside(module) for m in one.modules
        ]
        for one in relatives:
            self._leave(one)
        monitor = self._monitor([*modules, module])
        self.monitors.append(monitor)
        self._watched.append(_Watched([*modules, module], monitor))
        while len(self._watched) > _MOST_ALIVE:
            oldest = self._watched.pop(0)
            with contextlib.suppress(NonFiniteError):
                oldest.monitor.close()
        return monitor

    def _leave(self, one: _Watched) -> None:
        """Stop watching modules that are watched with others from now on."""
        self._watched.remove(one)
        one.monitor.close()
        if not one.monitor.findings:
            self.monitors.remove(one.monitor)

    def _monitor(self, modules: list[torch.nn.Module]) -> TorchMonitor:
        options = self._options
        if options.run is not None and self._watched:
            # Programs of their own; attempts of one folder are one program's.
            number = len(self._watched) + 1
            options = dataclasses.replace(
                options, run=Path(options.run) / f"model-{number}"
            )
        if len(modules) > 1:
            return TorchMonitor(_named(modules), options)
        keywords = {
            f.name: getattr(options, f.name) for f in dataclasses.fields(options)
        }
        monitor: TorchMonitor = instrument(modules[0], **keywords).numcheck  # type: ignore[assignment]
        return monitor


def _owners(parameters: set[int]) -> list[torch.nn.Module]:
    """Return the living modules that hold one of the parameters, at any depth."""
    known: dict[int, bool] = {}

    def holds(module: torch.nn.Module) -> bool:
        if id(module) not in known:
            own = [p for p in module._parameters.values() if p is not None]
            known[id(module)] = any(id(p) in parameters for p in own)
            inner = [holds(m) for m in module._modules.values() if m is not None]
            known[id(module)] |= any(inner)
        return known[id(module)]

    found = living(torch.nn.Module)
    kinds = (torch.jit.ScriptModule, torch.nn.ModuleDict, torch.nn.ModuleList)
    ready = [m for m in found if "_modules" in m.__dict__ and not isinstance(m, kinds)]
    return [m for m in ready if holds(m)]


def _named(modules: list[torch.nn.Module]) -> dict[str, torch.nn.Module]:
    """Return the modules by names of their own."""
    named: dict[str, torch.nn.Module] = {}
    for module in modules:
        name = type(module).__name__
        while name in named:
            name += "_"
        named[name] = module
    return named
