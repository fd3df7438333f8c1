# SPDX-License-Identifier: Apache-2.0
"""Tells an ordinary search for a loss scale from one that hides a fault.

A `GradScaler` starts high and halves its scale at every overflow; skipping steps is
how it works. It hides a fault when the loss itself is not finite, when steps keep
being skipped, or when the scale has fallen below one.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

from numcheck_torch.living import living

if TYPE_CHECKING:
    from numcheck_torch.program import Program

__all__ = ["ScaleWatch"]

_PATIENCE = (1, 4, 8, 16, 32, 64)


class ScaleWatch:
    """What is known of the gradient scaler.

    Attributes:
        scaler: the scaler; None while none was seen.
        skips: steps skipped in a row.
        may_search: whether the last one may be a search for the scale, as far as is
            known without running it again.
    """

    def __init__(self, scaler: torch.amp.GradScaler | None = None) -> None:
        self.scaler = scaler
        self.skips = 0
        self.may_search = False
        self._candidates: list[weakref.ref[torch.amp.GradScaler]] = []

    def follow(self, scaler: torch.amp.GradScaler) -> None:
        """Learn which scaler is in use."""
        self.scaler = scaler

    def look_around(self) -> None:
        """Find the living scalers, unless the one in use is known."""
        if self.scaler is None:
            # One that is switched off has no scale.
            found = living(torch.amp.GradScaler)
            enabled = [scaler for scaler in found if scaler.is_enabled()]
            self._candidates = [weakref.ref(scaler) for scaler in enabled]

    def recognise(self, program: Program) -> None:
        """Learn which scaler is in use from the scale that a loss was given."""
        if self.scaler is not None or not self._candidates:
            return
        given = {id(kept.tensor) for kept in program.externals.values()}
        for reference in self._candidates:
            scaler = reference()
            if scaler is not None and id(scaler._scale) in given:
                self.scaler = scaler

    @property
    def is_dynamic(self) -> bool:
        """Whether a scaler is in use."""
        return self.scaler is not None and self.scaler.is_enabled()

    @property
    def tensor(self) -> torch.Tensor | None:
        """The scale, where it lives; None while there is none."""
        return self.scaler._scale if self.is_dynamic and self.scaler else None

    @property
    def value(self) -> float | None:
        """The scale; reading it waits for the device."""
        return None if self.tensor is None else float(self.tensor)

    def applied(self) -> None:
        """Hear that a step was not skipped."""
        self.skips = 0

    def is_suspicious(self, *, loss_is_finite: bool) -> bool:
        """Hear that a step was skipped; whether it is worth running it unscaled."""
        self.skips += 1
        value = self.value
        collapsed = value is not None and value < 1.0
        self.may_search = loss_is_finite and not collapsed
        return not loss_is_finite or collapsed or self.skips in _PATIENCE
