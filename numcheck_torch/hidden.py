# SPDX-License-Identifier: Apache-2.0
"""A loss that the tape could not follow: what reached the outputs stands in for it.

Compiled losses and autograd functions of the user's own hide their operators from the
dispatcher. The module can be replayed all the same, from the gradients that the engine
brought to its outputs; only the loss itself is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.events import Gradient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck_torch.engine import EngineRun

__all__ = ["HiddenLoss"]


class HiddenLoss:
    """Catches the gradients of a module's outputs while the engine runs.

    Args:
        outputs: the outputs that can be differentiated, by slot.
    """

    def __init__(self, outputs: Mapping[int, torch.Tensor]) -> None:
        self._caught: dict[int, torch.Tensor] = {}
        self._handles = [
            tensor.register_hook(self._catcher(slot))
            for slot, tensor in outputs.items()
        ]

    def event(self, run: EngineRun) -> Gradient:
        """Return what the engine did, as seen from the outputs."""
        for handle in self._handles:
            handle.remove()
        return Gradient(
            roots=tuple(self._caught),
            seeds=tuple(self._caught.values()),
            inputs=(),
            retains=run.retains,
            creates=run.creates,
            accumulates=run.accumulates,
            outputs=(),
            values=tuple(r.detach() for r in run.roots if isinstance(r, torch.Tensor)),
            hides_loss=True,
        )

    def _catcher(self, slot: int) -> Any:
        def catch(gradient: torch.Tensor) -> None:
            self._caught[slot] = gradient

        return catch
