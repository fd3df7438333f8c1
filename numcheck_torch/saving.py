# SPDX-License-Identifier: Apache-2.0
"""Chosen tensors of chosen steps, kept in the run folder for a look offline."""

from __future__ import annotations

import fnmatch
import weakref
from typing import TYPE_CHECKING, Any

import ml_dtypes
import torch
from torch.nn.modules.module import register_module_forward_hook

from numcheck.errors import ArgumentError
from numcheck_torch.dtypes import format_name
from numcheck_torch.scope import is_compiled, plain_path
from numcheck_torch.sentinel import local
from numcheck_torch.trees import named_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch.utils.hooks import RemovableHandle

    from numcheck.record.run_folder import RunWriter

__all__ = ["Saving"]

OUTPUT = "output"


class Saving:
    """Writes what a pattern names, once every so many steps.

    Args:
        pattern: as of a shell, matched with ``loss``, ``output`` (of the model),
            ``output:PATH`` (of a module in it), ``gradient:NAME`` and
            ``parameter:NAME`` (as it is before the update).
        every: number of steps from one file to the next.
        run: the run folder that gets ``witness/step-00000000.safetensors``.
        model: whose modules have the outputs.
        fault: called in an ``except`` block, where an output cannot be kept.

    Raises:
        ArgumentError: there is no run folder.
    """

    def __init__(
        self,
        pattern: str,
        every: int,
        run: RunWriter | None,
        model: torch.nn.Module,
        fault: Callable[[str], None],
    ) -> None:
        if run is None:
            raise ArgumentError("save= keeps tensors in the run folder; give run= too")
        self._pattern = pattern
        self._every = every
        self._run = run
        self._model = weakref.ref(model)
        self._fault = fault
        self._names: dict[int, str] = {}
        self._outputs: dict[str, Any] = {}
        self._handle: RemovableHandle | None = None

    def listen(self, step: int) -> None:
        """Keep the outputs of the call that begins, of a step that is kept.

        What runs compiled hands out no output of a module inside.
        """
        self.rest()  # an interrupt may have ended the last call unheard
        model = self._model()
        if step % self._every or model is None or is_compiled(model):
            return
        self._names = {
            id(module): f"{OUTPUT}:{plain_path(name)}" if name else OUTPUT
            for name, module in model.named_modules()
        }
        if any(map(self._may_match, self._names.values())):
            self._handle = register_module_forward_hook(self._heard)

    def rest(self) -> None:
        """Hear that the call is over."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def keep(
        self,
        step: int,
        losses: Iterable[torch.Tensor],
        named: Iterable[tuple[str, torch.nn.Parameter]],
    ) -> None:
        """Write the tensors of a step that is about to make its update."""
        outputs, self._outputs = self._outputs, {}
        if step % self._every:
            return
        found: list[tuple[str, torch.Tensor]] = [("loss", loss) for loss in losses]
        for name, parameter in named:
            found.append((f"parameter:{name}", parameter))
            if parameter.grad is not None:
                found.append((f"gradient:{name}", parameter.grad))
        chosen = {name: _array(t) for name, t in found if self._matches(name)}
        if chosen or outputs:
            self._run.witness(f"step-{step:08d}", outputs | chosen)

    def _heard(self, module: torch.nn.Module, _: object, out: object) -> None:
        name = self._names.get(id(module))
        if name is None or not self._may_match(name):
            return
        try:
            self._take(name, out)
        except Exception:  # noqa: BLE001 - reported as N901; the training goes on
            self._fault("fault.output_copy")

    def _take(self, name: str, out: object) -> None:
        with torch.no_grad():
            for path, tensor in named_tensors(out):
                full = f"{name}.{path}" if path else name
                if self._matches(full):
                    # At once: what follows may write to it. Of several calls in a
                    # step the last one stays.
                    self._outputs[full] = _array(tensor)

    def _may_match(self, name: str) -> bool:
        return self._matches(name) or self._pattern.startswith(f"{name}.")

    def _matches(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self._pattern)


def _array(tensor: torch.Tensor) -> Any:
    """Return a copy as a NumPy array, also in formats that NumPy lacks."""
    # Sharing memory with NumPy would take the tensor's right to be resized.
    host = local(tensor.detach()).to("cpu", copy=True).contiguous()
    try:
        return host.numpy()
    except TypeError:
        bits = host.view(torch.uint8 if host.element_size() == 1 else torch.int16)
        return bits.numpy().view(getattr(ml_dtypes, format_name(tensor.dtype)))
