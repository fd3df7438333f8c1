# SPDX-License-Identifier: Apache-2.0
"""Records the program's own run, step after step, while it runs: level ``trace``."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any

from numcheck.record.trace import TraceBuilder
from numcheck_torch import modes
from numcheck_torch.batch import Batch, named_inputs
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch

    from numcheck.options import Level
    from numcheck.record.trace import Trace
    from numcheck_torch.compile import Observer
    from numcheck_torch.compiled_parts import CompiledParts
    from numcheck_torch.program import Program

__all__ = ["Live"]


class Live:
    """A recorder that is on from the first call of a step to its last update.

    Args:
        level: nothing is recorded in level ``watch``.
        model: names parameters and scopes.
        meta: written into every trace.
        parts: what of the model runs compiled.

    Attributes:
        is_on: whether a step is being recorded now.
    """

    def __init__(
        self,
        level: Level,
        model: torch.nn.Module,
        meta: dict[str, Any],
        parts: CompiledParts,
    ) -> None:
        self._is_wanted = level != "watch"
        self._anchors = level == "anchors"
        self._subject = weakref.ref(model)
        self._meta = meta
        self._parts = parts
        self._observer: Observer | None = None
        self._recorder: Recorder | None = None
        self.is_on = False
        self._hears = False
        self._phase: contextlib.AbstractContextManager[None] | None = None

    def begin(self, step: int) -> None:
        """Start recording a step, unless it is being recorded."""
        model = self._subject()
        if self.is_on or not self._is_wanted or model is None:
            return
        builder = TraceBuilder(step)
        if self._recorder is None or self._observer is not self._parts.observer:
            self._observer = self._parts.observer
            self._recorder = Recorder(
                builder,
                modules=model,
                measure="extremes",
                compiled=self._observer,
                anchors=self._anchors,
            )
        else:
            self._recorder.restart(builder)
        self.is_on = True
        self._resume()

    def called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Name what the module is about to be called with."""
        if self._recorder is not None and self.is_on and not self._anchors:
            for name, tensor in named_inputs(args, kwargs):
                self._recorder.expect(tensor, f"input:{name}", "input")

    def before_update(
        self,
        losses: Iterable[torch.Tensor],
        gradients: Iterable[tuple[str, torch.Tensor]],
        program: Program,
    ) -> None:
        """Keep losses and gradients; what follows belongs to the optimizer."""
        if self._recorder is None or not self.is_on or self._phase is not None:
            return
        if self._recorder.anchors is not None:
            for loss in losses:
                self._recorder.anchors.kept(loss, "loss", "loss")
        else:
            self._name_targets(program)
            self._recorder.keep_all(((loss, "loss") for loss in losses), "loss")
            self._recorder.keep_all(
                ((g, f"gradient:{name}") for name, g in gradients), "gradient"
            )
        self._phase = self._recorder.phase("optimizer")
        self._phase.__enter__()

    def finish(self) -> Trace | None:
        """Stop recording and return the step's trace."""
        if self._recorder is None or not self.is_on:
            return None
        recorder = self._recorder
        if self._phase is not None:
            if not self._anchors:
                self._keep_parameters(recorder)
            self._phase.__exit__(None, None, None)
            self._phase = None
        self.rest()
        self.is_on = False
        try:
            recorder.finish()
        except Exception:
            self._recorder = None
            raise
        return recorder.builder.build(**self._meta)

    def _name_targets(self, program: Program) -> None:
        """Name what the loss read besides the module's outputs: known only by now."""
        model = self._subject()
        if model is not None and self._recorder is not None:
            for name, tensor in Batch(model, program).targets:
                self._recorder.rename(tensor, f"input:{name}", "target")

    def _keep_parameters(self, recorder: Recorder) -> None:
        model = self._subject()
        named = () if model is None else model.named_parameters()
        trained = ((p, f"parameter:{name}") for name, p in named if p.requires_grad)
        recorder.keep_all(trained, "parameter")

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Run a block that is not the program's own."""
        did_hear = self._hears
        self.rest()
        try:
            yield
        finally:
            if did_hear:
                self._resume()

    def rest(self) -> None:
        """Hear nothing more of the step; what was recorded of it stays."""
        if self._recorder is not None and self._hears:
            modes.remove(self._recorder.mode)
            self._recorder.unfollow()
            self._hears = False

    def _resume(self) -> None:
        if self._recorder is not None:
            self._recorder.follow()
            modes.insert(self._recorder.mode)
            self._hears = True
