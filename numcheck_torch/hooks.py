# SPDX-License-Identifier: Apache-2.0
"""Where a monitor listens: the module's calls, the engine, updates, clipping, scaling.

Hooks hold their monitor weakly, and do nothing once it is gone. Inside a compiled
region they are constant and leave no trace.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Protocol

import torch

from numcheck_torch import doors, engine, updates
from numcheck_torch.compiled_update import heard, updated_by

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from torch.utils.hooks import RemovableHandle

__all__ = ["Hooks", "Listener"]

_Reference = weakref.ref[torch.nn.Module]
_CLIP = (torch.nn.utils.clip_grad, "_clip_grads_with_norm_")
_SCALER = (torch.amp.grad_scaler.GradScaler, "update")
_COMPILE = (torch, "compile")
_DOORS = (engine.BACKWARD, engine.DOOR, _CLIP, _SCALER, _COMPILE)


class Listener(Protocol):
    """What a monitor hears. None of its methods may raise by its own fault."""

    def attached(self, module: torch.nn.Module) -> None:
        """Hear of a module whose calls will be heard."""

    def before_call(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        caller: FrameType,
    ) -> None:
        """Hear that a watched module is about to be called.

        Args:
            module: the module.
            args: its arguments.
            kwargs: its keyword arguments.
            caller: a frame below the user's line, there until the call is over.
        """

    def after_call(self, out: object) -> None:
        """Hear what the module returned."""

    def call_failed(self, error: BaseException) -> None:
        """Hear that the call ended in an error, which goes on afterwards."""

    def before_backward(self) -> None:
        """Hear that something is about to be differentiated into ``.grad``."""

    def before_engine(self, run: engine.EngineRun) -> None:
        """Hear that the autograd engine is about to run."""

    def after_engine(self, run: engine.EngineRun, result: tuple[Any, ...]) -> None:
        """Hear that the autograd engine ran."""

    def before_update(
        self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any
    ) -> Any:
        """Hear that an optimizer is about to step; may return other arguments."""

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Hear that an optimizer stepped."""

    def clipped(
        self, parameters: Any, max_norm: float, total_norm: torch.Tensor
    ) -> None:
        """Hear that gradients are about to be clipped by their norm."""

    def before_scale_update(self, scaler: torch.amp.GradScaler) -> None:
        """Hear that a gradient scaler is about to decide about its scale."""


class Hooks:
    """The hooks of one monitor.

    Args:
        models: what is watched; held weakly.
        listener: who hears; held weakly.
    """

    def __init__(self, models: Iterable[torch.nn.Module], listener: Listener) -> None:
        self._listener = weakref.ref(listener)
        self._models = [weakref.ref(model) for model in models]
        self._run: engine.EngineRun | None = None
        self._calls: list[tuple[_Reference, tuple[RemovableHandle, ...]]] = []
        updates.listen(listener)
        doors.listen(*engine.BACKWARD, before=self._backward_in)
        doors.listen(*engine.DOOR, before=self._engine_in, after=self._engine_out)
        doors.listen(*_CLIP, before=self._clip)
        doors.listen(*_SCALER, before=self._scale)
        doors.listen(*_COMPILE, after=self._compiled)
        for model in self.models:
            self.attach(model)

    @property
    def models(self) -> list[torch.nn.Module]:
        """The watched modules that are alive."""
        found = [reference() for reference in self._models]
        return [model for model in found if model is not None]

    def attach(self, module: torch.nn.Module) -> None:
        """Listen at the calls of a module: the watched one, or a compiled form of it.

        Hooks of a module that was compiled in place would become part of the compiled
        region, so there the call of the region itself is wrapped.
        """
        # Scripted modules refuse these methods, and honour the hooks.
        before = torch.nn.Module.register_forward_pre_hook(
            module, self._pre_call(module), prepend=True, with_kwargs=True
        )
        after = torch.nn.Module.register_forward_hook(
            module, self._post_call(module), always_call=True
        )
        self._calls.append((weakref.ref(module), (before, after)))
        region = module.__dict__.get("_compiled_call_impl")
        if region is not None:
            module.__dict__["_compiled_call_impl"] = self._around(module, region)
        listener = self._listener()
        if listener is not None:
            listener.attached(module)

    def detach(self) -> None:
        """Remove every hook; what was compiled stays compiled."""
        for reference, handles in self._calls:
            module = reference()
            if module is None:
                continue
            for handle in handles:
                handle.remove()
            region = module.__dict__.get("_compiled_call_impl")
            inner = getattr(region, "numcheck_region", None)
            if inner is not None:
                module.__dict__["_compiled_call_impl"] = inner
        if (listener := self._listener()) is not None:
            updates.unlisten(listener)
        for owner, name in _DOORS:
            doors.unlisten(owner, name, self)

    def ids(self, module: torch.nn.Module) -> set[int]:
        """Return the ids of our hooks on a module, as its hook tables know them."""
        return {h.id for r, handles in self._calls if r() is module for h in handles}

    # --- calls of the module ---

    def _pre_call(self, expected: torch.nn.Module) -> Any:
        reference, subject = self._listener, weakref.ref(expected)

        def before(module: Any, args: Any, kwargs: Any) -> None:
            if torch.compiler.is_compiling():
                return
            listener, watched = reference(), subject()
            # A shallow copy shares the hooks of the module, but is not watched.
            if listener is not None and watched is not None and module is watched:
                listener.before_call(watched, args, kwargs, sys._getframe(1))

        return before

    def _post_call(self, expected: torch.nn.Module) -> Any:
        reference, subject = self._listener, weakref.ref(expected)

        def after(module: Any, args: Any, out: Any) -> None:
            if torch.compiler.is_compiling():
                return
            listener = reference()
            if listener is None or module is not subject():
                return
            if out is None and (error := _error_of(sys._getframe(1))) is not None:
                listener.call_failed(error)
            else:
                listener.after_call(out)

        return after

    def _around(self, module: torch.nn.Module, region: Any) -> Any:
        """Return a compiled region whose calls are heard."""
        before, after = self._pre_call(module), self._post_call(module)
        subject = weakref.ref(module)

        @torch.compiler.disable(recursive=False)  # type: ignore[untyped-decorator]
        def call(*args: Any, **kwargs: Any) -> Any:
            before(subject(), args, kwargs)
            out = None
            try:
                out = region(*args, **kwargs)
            finally:
                after(subject(), args, out)
            return out

        call.numcheck_region = region
        return call

    def _compiled(self, args: tuple[Any, ...], kwargs: Any, result: Any) -> Any:
        """Follow a watched module into its compiled form."""
        subject: Any = args[0] if args else kwargs.get("model")
        owner = getattr(subject, "__self__", None)
        for model in self.models:
            if subject is model and isinstance(result, torch.nn.Module):
                self.attach(result)
            elif owner is model:
                return self._around(model, result)
        optimizers = updated_by(subject)
        return heard(result, optimizers, self._listener) if optimizers else None

    # --- the rest of the step ---

    def _backward_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        listener = self._listener()
        if listener is not None:
            listener.before_backward()

    def _engine_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # Inside, checkpointing enters the engine again: a part of the outer run.
        is_inside = torch._C._current_graph_task_id() != -1
        if is_inside or (listener := self._listener()) is None:
            return
        self._run = run = engine.EngineRun.of(args, kwargs)
        listener.before_engine(run)

    def _engine_out(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        run, listener = self._run, self._listener()
        if run is None or listener is None or torch._C._current_graph_task_id() != -1:
            return
        self._run = None
        listener.after_engine(run, tuple(result or ()))

    def _clip(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        listener = self._listener()
        if listener is not None and len(args) >= 3:
            listener.clipped(args[0], args[1], args[2])

    def _scale(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        listener = self._listener()
        if listener is not None:
            listener.before_scale_update(args[0])


def _error_of(frame: FrameType) -> BaseException | None:
    """Return the error that a frame is handling; None for one from further out."""
    error = sys.exc_info()[1]
    trace = None if error is None else error.__traceback__
    return error if trace is not None and trace.tb_frame is frame else None
