# SPDX-License-Identifier: Apache-2.0
"""Runs a step's program again, and leaves everything as it was.

Nothing stays written in ``.grad``, and what a program hangs on gradient accumulation
(an optimizer in the backward pass, the reducer of a distributed module) stays asleep.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import torch

from numcheck.diagnose.laboratory import CannotRunError
from numcheck_torch.attributes import attribute_places
from numcheck_torch.buffers import BufferSnapshot, buffer_places
from numcheck_torch.capture import Forward, RandomState, without_autocast
from numcheck_torch.differentiation import gradients_of
from numcheck_torch.events import Operation, Slot
from numcheck_torch.generators import PutBack, generators_of
from numcheck_torch.higher_order import Unfolded
from numcheck_torch.hook_state import places_of_code
from numcheck_torch.host_random import HostState
from numcheck_torch.places import call_at
from numcheck_torch.rewriting import ParametersBack
from numcheck_torch.trees import map_leaves, named_tensors, tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numcheck_torch.events import Gradient
    from numcheck_torch.program import Program

__all__ = ["Outcomes", "Runner", "uncompiled", "undisturbed"]


@dataclasses.dataclass(slots=True)
class Outcomes:
    """What a run of a step's program gave.

    Attributes:
        losses: what was differentiated into ``.grad``, in order.
        outputs: (path, tensor) of what the module returned, of all its calls.
        gradients: gradient of each parameter that got one, by name.
    """

    losses: list[torch.Tensor] = dataclasses.field(default_factory=list)
    outputs: list[tuple[str, torch.Tensor]] = dataclasses.field(default_factory=list)
    gradients: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Put random states and what the model keeps back, whatever the block does."""
    random, host = RandomState.now(generators_of(model)), HostState.now()
    kept = attribute_places(model) + places_of_code(model)
    state = BufferSnapshot.of(buffer_places(model), kept)
    try:
        with PutBack(), ParametersBack(model):
            yield
    finally:
        state.restore()
        random.restore()
        host.restore()


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Run compiled functions and modules operator by operator inside the block."""
    # Asking would import the compiler, which takes seconds; where nothing imported it,
    # nothing is compiled.
    if "torch._dynamo.eval_frame" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"), Unfolded():
        yield


class Runner:
    """Runs one program once.

    Args:
        model: the watched module, its hooks of ours asleep.
        program: what to run.
        change: what to put in place of a tensor the program was given (the batch,
            targets); parameters are never passed to it.
        form: what to call in place of a module: the compiled form of it.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        program: Program,
        change: Callable[[torch.Tensor], torch.Tensor] | None = None,
        form: Callable[[torch.nn.Module], torch.nn.Module] | None = None,
    ) -> None:
        self.model = model
        self.program = program
        self.outcomes = Outcomes()
        self._change = change or (lambda tensor: tensor)
        self._form = form or (lambda module: module)
        self._parameters = {
            id(p): n for n, p in model.named_parameters() if p.requires_grad
        }
        self._leaves: dict[int, torch.Tensor] = {
            id(p): p for p in model.parameters() if p.requires_grad
        }
        self._values: dict[int, torch.Tensor] = {}
        self._changed: dict[int, torch.Tensor] = {}

    def run(self) -> Outcomes:
        """Run every event; see `undisturbed` for putting things back.

        Raises:
            CannotRunError: the module behaves otherwise than before.
        """
        for slot, kept in self.program.externals.items():
            tensor = self._given(kept.tensor)
            if slot in self.program.written:
                tensor = tensor.detach().clone()
            self._values[slot] = tensor
        with contextlib.ExitStack() as autocast, torch.enable_grad():
            for event in self.program.events:
                if isinstance(event, Forward):
                    self._forward(event, autocast)
                elif isinstance(event, Operation):
                    self._operate(event)
                else:
                    autocast.close()
                    self._differentiate(event)
        pending = self.program.pending_loss
        if not self.program.gradients and pending is not None:
            self.outcomes.losses.append(self._values[pending].detach())
        return self.outcomes

    def _given(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in self._leaves:
            return tensor
        if id(tensor) not in self._changed:
            self._changed[id(tensor)] = self._change(tensor)
        return self._changed[id(tensor)]

    def _forward(self, event: Forward, autocast: contextlib.ExitStack) -> None:
        # The autocast block stays open over what follows, as the user's does: the
        # casts of the weights are shared by all calls inside one block.
        autocast.enter_context(event.autocast.applied())
        event.random.restore()
        if event.host is not None:
            event.host.restore()
        event.buffers.restore()
        args, kwargs = self._filled((event.args, dict(event.kwargs)))
        for tensor in tensors((args, kwargs)):
            if tensor.requires_grad and tensor.is_leaf:
                self._leaves.setdefault(id(tensor), tensor)
        out = call_at(event.place, self._form(event.module), args, kwargs)
        returned = list(named_tensors(out))
        self._store(event.outputs, [t for _, t in returned])
        self.outcomes.outputs.extend((n, t.detach()) for n, t in returned)

    def _operate(self, event: Operation) -> None:
        args, kwargs = self._filled((event.args, event.kwargs))
        if event.random is not None:
            event.random.restore()
        settings = event.autocast
        block = without_autocast() if settings is None else settings.applied()
        with block, torch.set_grad_enabled(event.grad):
            out = call_at(event.place, event.function, args, kwargs)
        self._store(event.outputs, list(tensors(out)))

    def _differentiate(self, event: Gradient) -> None:
        roots = [self._values[slot] for slot in event.roots]
        leaves = [self._values[slot] for slot in event.inputs]
        if not event.inputs:
            leaves = [*self._leaves.values()]
        seeds = [
            None if s is None else s.to(r.dtype)
            for r, s in zip(roots, event.seeds, strict=True)
        ]
        if event.hides_loss and not (_are_finite(seeds) or _are_finite(roots)):
            # What came back through the loss follows from what went into it.
            return
        found = gradients_of(
            roots,
            leaves,
            seeds,
            retains=event.retains or event.creates,
            creates=event.creates,
        )
        if not event.accumulates:
            for slot, gradient in zip(event.outputs, found, strict=True):
                if slot is not None and gradient is not None:
                    self._values[slot] = gradient
            return
        if not event.hides_loss:
            self.outcomes.losses.extend(self._unscaled(slot) for slot in event.roots)
        self._accumulate(leaves, found)

    def _accumulate(self, leaves: list[torch.Tensor], found: Any) -> None:
        gradients = self.outcomes.gradients
        for leaf, gradient in zip(leaves, found, strict=True):
            name = self._parameters.get(id(leaf))
            if name is None or gradient is None:
                continue
            earlier = gradients.get(name)
            with torch.no_grad():
                total = gradient if earlier is None else earlier + gradient
            gradients[name] = total.detach()

    def _unscaled(self, root: int) -> torch.Tensor:
        return self._values[self.program.unscaled.get(root, root)].detach()

    def _filled(self, tree: Any) -> Any:
        def fill(leaf: Any) -> Any:
            if isinstance(leaf, Slot):
                return self._values[leaf.index]
            return self._given(leaf) if isinstance(leaf, torch.Tensor) else leaf

        return map_leaves(tree, fill)

    def _store(self, slots: tuple[int, ...], returned: list[torch.Tensor]) -> None:
        if len(slots) != len(returned):
            raise CannotRunError("refusal.other_tensors")
        self._values.update(zip(slots, returned, strict=True))


def _are_finite(tensors: Sequence[torch.Tensor | None]) -> bool:
    return all(t is None or bool(torch.isfinite(t).all()) for t in tensors)
