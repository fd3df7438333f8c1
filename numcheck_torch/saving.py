# SPDX-License-Identifier: Apache-2.0
"""Chosen tensors of chosen steps, kept in the run folder for a look offline."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any

import ml_dtypes
import torch

from numcheck.errors import ArgumentError
from numcheck_torch.dtypes import format_name
from numcheck_torch.sentinel import local

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.record.run_folder import RunWriter

__all__ = ["Saving"]


class Saving:
    """Writes what a pattern names, once every so many steps.

    Args:
        pattern: as of a shell, matched with ``loss``, ``gradient:NAME`` and
            ``parameter:NAME`` (as it is before the update).
        every: number of steps from one file to the next.
        run: the run folder that gets ``witness/step-00000000.safetensors``.

    Raises:
        ArgumentError: there is no run folder.
    """

    def __init__(self, pattern: str, every: int, run: RunWriter | None) -> None:
        if run is None:
            raise ArgumentError("save= keeps tensors in the run folder; give run= too")
        self._pattern = pattern
        self._every = every
        self._run = run

    def keep(
        self,
        step: int,
        losses: Iterable[torch.Tensor],
        named: Iterable[tuple[str, torch.nn.Parameter]],
    ) -> None:
        """Write the tensors of a step that is about to make its update."""
        if step % self._every:
            return
        found: list[tuple[str, torch.Tensor]] = [("loss", loss) for loss in losses]
        for name, parameter in named:
            found.append((f"parameter:{name}", parameter))
            if parameter.grad is not None:
                found.append((f"gradient:{name}", parameter.grad))
        chosen = {
            name: _array(tensor)
            for name, tensor in found
            if fnmatch.fnmatchcase(name, self._pattern)
        }
        if chosen:
            self._run.witness(f"step-{step:08d}", chosen)


def _array(tensor: torch.Tensor) -> Any:
    """Return a copy as a NumPy array, also in formats that NumPy lacks."""
    # Sharing memory with NumPy would take the tensor's right to be resized.
    host = local(tensor.detach()).to("cpu", copy=True).contiguous()
    try:
        return host.numpy()
    except TypeError:
        bits = host.view(torch.uint8 if host.element_size() == 1 else torch.int16)
        return bits.numpy().view(getattr(ml_dtypes, format_name(tensor.dtype)))
