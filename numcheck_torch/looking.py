# SPDX-License-Identifier: Apache-2.0
"""A look at a step's values: read at once, or by the next look."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from numcheck.diagnose.laboratory import CannotRunError
from numcheck_torch import modes
from numcheck_torch.bench import Bench
from numcheck_torch.deferred import Deferred
from numcheck_torch.distributed.sharding import is_spread
from numcheck_torch.graph import reaches
from numcheck_torch.optimizers import settings_of
from numcheck_torch.sentinel import at_a_glance, look
from numcheck_torch.states import small_states

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.diagnose.incident import Setting
    from numcheck.diagnose.still_watch import StillWatch
    from numcheck_torch.boundary import Checked
    from numcheck_torch.engine import EngineRun
    from numcheck_torch.laboratory import TorchLaboratory
    from numcheck_torch.program import Program
    from numcheck_torch.sentinel import Reading

__all__ = ["Looking"]

_LOSSES = 64
"""Losses kept of a step whose module's calls cannot be heard."""


class Looking(Bench):
    """A monitor that looks; `TorchMonitor` adds when, and what comes of it."""

    _deferred: Deferred | None = None
    _still: StillWatch
    _is_bad = False
    _told_uncalled = False
    _has_read = False
    _put_off: tuple[int, Program, Reading] | None = None

    def _failed(self, reading: Reading, *, unscaled: bool = False) -> None:
        raise NotImplementedError

    def _healthy(self) -> None:
        raise NotImplementedError

    def _settle(self) -> None:
        raise NotImplementedError

    def _check(self, found_inf: torch.Tensor | None = None) -> None:
        raise NotImplementedError

    def known_settings(self) -> Mapping[str, Setting]:
        """Return class and numbers of the first optimizer."""
        return next((settings_of(o) for o in self.optimizers[:1]), {})

    def claim_still_audit(self) -> bool:
        """Whether to audit this step for a buffer that stopped moving in few bits."""
        if not (self._may_audit and self._still.wants_values(self.step)):
            return False
        return self._still.take(modes.outside(small_states, self.model))

    def _clipped_away(self, total: torch.Tensor) -> None:
        raise NotImplementedError

    def _look(
        self,
        gradients: Sequence[tuple[str, torch.Tensor]],
        losses: Sequence[torch.Tensor],
        **others: torch.Tensor | None,
    ) -> Reading:
        """Look at values, and at what was checked by hand since the last look."""
        checks: Sequence[Checked] = ()
        if self._checks:
            checks = list(self._checks)
            self._checks.clear()
        reading = modes.outside(look, gradients, losses, checks=checks, **others)
        self._bad_checks = reading.checked
        return reading

    def _hear_unread(self, run: EngineRun) -> None:
        """Keep the loss of a step whose calls of the module cannot be heard.

        So it is inside a compiled function, and where the module returns a generator.
        """
        window = self._window
        is_unheard = self._told_uncalled or not self._has_read
        if not (is_unheard and run.accumulates and window.is_empty):
            return
        own = {id(p) for _, p in self._parameters.named(self.step)}
        losses = [r for r in run.roots if isinstance(r, torch.Tensor)]
        if reaches(losses, (), own):
            if self._fleet.stepped:
                self._settle()
            window.losses = [*window.losses, *(r.detach() for r in losses)][-_LOSSES:]

    def _check_uncalled(self, found_inf: torch.Tensor | None) -> None:
        """Look at the gradients of a module that the loop does not call itself."""
        if self._fleet.stepped or not self._parameters.gradients(self.step):
            return
        if not self._told_uncalled:
            self._told_uncalled = True
            self.observe(note="notice.uncalled")
        self._check(found_inf=found_inf)

    def _check_last_update(self) -> None:
        """Look at what the last update left, since no step will."""
        if self._is_bad:
            # What it left follows from what was found before it.
            return
        reading = look(list(self.model.named_parameters()), [])
        if not reading.is_healthy and self._earlier is not None:
            _, self._window.program = self._earlier
            self._failed(reading)

    def _look_at_step(self, found_inf: torch.Tensor | None) -> Reading:
        """Look at what an update is about to use: each gradient, and the losses."""
        losses, is_scaled = self._window.losses, self.scale.is_dynamic
        is_plain = found_inf is None and self.clip is None and not self._handed
        if is_plain and not (is_scaled or self._checks):
            named = self._parameters.named(self.step)
            reading = modes.outside(at_a_glance, named, losses)
            if reading is not None:
                self._bad_checks = ()
                return reading
        return self._look(
            self._gradients(),
            losses,
            total=None if self.clip is None else self.clip[1],
            found_inf=found_inf,
            scale=self.scale.tensor if is_scaled else None,
        )

    def settle_debts(self) -> None:
        """Deliver what was found, and look at what broke, while others were elsewhere.

        Raises:
            NonFiniteError: as the user's policy says.
        """
        super().settle_debts()
        put_off, self._put_off = self._put_off, None
        if put_off is not None:
            step, program, reading = put_off
            self._earlier = step, program
            with self._as_of(step):
                self._failed(reading)

    def _is_search(self, laboratory: TorchLaboratory) -> bool:
        """Whether a step that a gradient scaler skips is healthy without its scale."""
        try:
            return laboratory.is_healthy()
        except CannotRunError:
            return self.scale.may_search

    def _put_off_or_fail(self, reading: Reading) -> None:
        """Act on a bad step, at once unless it takes other ranks to run it again."""
        waits = self.ranks.are_elsewhere and not self._is_ending
        if waits and is_spread(self.model):
            # Nobody will hold its loss by then.
            self.program.is_last = True
            self._put_off = self.step, self.program, reading
        else:
            self._failed(reading)

    def _keep_program(self) -> None:
        """Keep what the step did for one step more: its update may show as bad yet."""
        is_kept = self._deferred is not None or self.program.is_small
        self._earlier = (self.step, self.program) if is_kept else None

    def _look_later(self) -> None:
        """Launch a look, and read what the last one saw."""
        checks = list(self._checks)
        self._checks.clear()
        launched = modes.outside(
            Deferred,
            self.step,
            self._gradients(),
            self._window.losses,
            total=None if self.clip is None else self.clip[1],
            checks=checks,
        )
        self.observe(learning_rate=self._fleet.learning_rate)
        was_healthy = self._read_deferred()
        self._deferred = launched
        if was_healthy:
            self._healthy()

    def _read_deferred(self) -> bool:
        """Read what the last look saw, and act on it; whether all was well."""
        deferred, self._deferred = self._deferred, None
        if deferred is None:
            return True
        named = self._parameters.named(self.step)
        reading = modes.outside(deferred.read, named)
        with self._as_of(deferred.step):
            self.observe(loss=reading.loss, gradient_norm=reading.norm)
            self._bad_checks = reading.checked
            if not reading.is_healthy:
                self._failed(reading)
            elif deferred.total is not None and reading.norm == math.inf:
                self._clipped_away(deferred.total)
        return reading.is_healthy
