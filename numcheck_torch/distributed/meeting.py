# SPDX-License-Identifier: Apache-2.0
"""All ranks look at a step, and either all go on or all stop.

Gradients are the same on every rank after they were combined, but losses are not, and
a rank's own step tells whether the NaN came from it. Each look at a step ends with one
number that all ranks agree on; only when it says so is there more to talk about.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol

from numcheck.errors import NonFiniteError
from numcheck.monitor import NumcheckWarning
from numcheck.record.notice import notice
from numcheck_torch.distributed.averaged import hook_of
from numcheck_torch.distributed.companions import Companions
from numcheck_torch.distributed.place import is_connected
from numcheck_torch.distributed.sharding import joins, partners, wrappers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch

    from numcheck.diagnose.finding import Finding

__all__ = ["HasRanks", "Ranks", "together"]

_HEALTHY, _FOUND, _FAILED, _OWN = range(4)
"""Nothing; an audit's finding; bad values; bad values that this rank made itself."""


class HasRanks(Protocol):
    """A monitor that looks at its steps together with other ranks'."""

    ranks: Ranks

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What it found so far."""

    def deliver(self, findings: Iterable[Finding]) -> None:
        """Keep findings and do what the user asked for."""

    def observe(self, **scalars: float | str | None) -> None:
        """Note something about the step."""

    def fault(self, where: str) -> None:
        """Record the error being handled."""

    def stop(self) -> None:
        """Hear that another rank's step is bad."""


P = ParamSpec("P")


def together(
    look: Callable[Concatenate[Any, P], None],
) -> Callable[Concatenate[Any, P], None]:
    """Make a method of a monitor, a look at a step, one that all ranks take part in."""

    @functools.wraps(look)
    def met(self: HasRanks, /, *args: P.args, **kwargs: P.kwargs) -> None:
        self.ranks.meet(self, functools.partial(look, self, *args, **kwargs))

    return met


class Ranks:
    """The ranks of one monitor; until `gather` found others, this one alone."""

    def __init__(self) -> None:
        self._companions: Companions | None = None
        self._called: list[torch.nn.Module] = []
        self._level: int | None = None
        self._is_meeting = False

    def gather(self, model: torch.nn.Module, called: list[torch.nn.Module]) -> str:
        """Find the ranks that train the model too; return what is to be noted.

        Args:
            model: the module without wrappers.
            called: the watched modules as the program calls them.
        """
        ranks = partners(model, called) if is_connected() else None
        if ranks is None or len(ranks) < 2:
            return ""
        self._called = called
        self._companions = Companions.gathered(ranks)
        if self._companions is None:
            return "notice.ranks_unwatched"
        return ""

    def averaging(self, model: torch.nn.Module) -> str | None:
        """Return the user's own way to average gradients; None where none are.

        Args:
            model: the module without wrappers.
        """
        if self._companions is None:
            return None
        return hook_of([*self._called, *wrappers_of(model)])

    def is_ours(self, *, reproduced: bool | None) -> bool:
        """Say that this rank's step is bad; whether it is for this rank to explain.

        Args:
            reproduced: whether this rank's step, run alone, fails as well.
        """
        if not self._is_meeting or self._companions is None or self._level is not None:
            return True
        self._level = self._companions.highest(_OWN if reproduced else _FAILED)
        return bool(reproduced) or self._level < _OWN

    def meet(self, monitor: HasRanks, look: Callable[[], None]) -> None:
        """Look at a step, and hear what the others saw.

        Raises:
            NonFiniteError: as the user's policy says, on every rank.
        """
        companions = self._companions
        is_busy = self._is_meeting or joins(self._called)
        if companions is None or companions.is_gone or is_busy:
            look()
            return
        self._is_meeting, self._level = True, None
        known = monitor.findings
        stopped: NonFiniteError | NumcheckWarning | None = None
        try:
            try:
                look()
            except (NonFiniteError, NumcheckWarning) as error:
                stopped = error
            except Exception:  # noqa: BLE001 - the others wait for a word
                monitor.fault("fault.several_ranks")
            own = tuple(getattr(stopped, "findings", ())) or tuple(
                found
                for found in monitor.findings
                if found.severity == "error" and all(found is not k for k in known)
            )
            others = self._heard(monitor, companions, own)
        finally:
            self._is_meeting = False
        if stopped is not None:
            raise stopped
        if others:
            monitor.deliver(others)

    def _heard(
        self, monitor: HasRanks, companions: Companions, own: tuple[Finding, ...]
    ) -> tuple[Finding, ...]:
        """Return the findings of the first rank to fail, when this one has none."""
        try:
            level = self._level
            if level is None:
                level = companions.highest(_FOUND if own else _HEALTHY)
            if level == _HEALTHY:
                return ()
            heard: list[tuple[Finding, ...]] = companions.words(own)
        except Exception:  # noqa: BLE001 - a companion is gone, and so is the group
            self._companions = None
            monitor.fault("fault.agreement")
            return ()
        if level >= _FAILED:
            monitor.stop()
        if own:
            return ()
        first: tuple[Finding, ...] = next((found for found in heard if found), ())
        if first:
            is_harmed = self._level is not None
            how = "notice.harmed_by_rank" if is_harmed else "notice.stopped_with_rank"
            monitor.observe(note=notice(how, rank=first[0].rank))
        return first
