# SPDX-License-Identifier: Apache-2.0
"""All ranks look at a step, and either all go on or all stop.

Gradients are the same on every rank after they were combined, but losses are not, and
a rank's own step tells whether the NaN came from it. Each look at a step ends with one
number that all ranks agree on; only when it says so is there more to talk about.

What a rank wants to run again may take the others
(`numcheck_torch.distributed.company`): until the number is agreed on, and again until
all have told what they found, each rank does what another one asks for.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol

from numcheck.errors import NonFiniteError
from numcheck.monitor import NumcheckWarning
from numcheck.record.notice import notice
from numcheck_torch.distributed.averaged import hook_of
from numcheck_torch.distributed.companions import Companions
from numcheck_torch.distributed.company import Company, Helps
from numcheck_torch.distributed.place import is_connected
from numcheck_torch.distributed.sharding import joins, partners, wrappers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch

    from numcheck.diagnose.finding import Finding

__all__ = ["HasRanks", "Ranks", "together"]

_HEALTHY, _FOUND, _FAILED, _OWN = range(4)
"""Nothing; an audit's finding; bad values; bad values that this rank made itself."""


class HasRanks(Helps, Protocol):
    """A monitor that looks at its steps together with other ranks'."""

    ranks: Ranks

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What it found so far."""

    def deliver(self, findings: Iterable[Finding]) -> None:
        """Keep findings and do what the user asked for."""

    def observe(self, **scalars: float | str | None) -> None:
        """Note something about the step."""

    def settle_debts(self) -> None:
        """Deliver what was found between two looks."""

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
        if self.ranks.is_alone:
            look(self, *args, **kwargs)
        else:
            self.ranks.meet(self, functools.partial(look, self, *args, **kwargs))

    return met


class Ranks:
    """The ranks of one monitor; until `gather` found others, this one alone.

    Attributes:
        company: through which steps are run again that take all ranks.
    """

    def __init__(self) -> None:
        self._companions: Companions | None = None
        self._called: list[torch.nn.Module] = []
        self._level: int | None = None
        self.company = Company()

    @property
    def is_alone(self) -> bool:
        """Whether no other ranks take part."""
        return self._companions is None

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

    @property
    def are_elsewhere(self) -> bool:
        """Whether there are other ranks, and none of them looks at a step now."""
        those = self._companions
        if those is None or self.company.is_met or those.is_gone:
            return False
        return not joins(self._called)

    def is_ours(self, *, is_own: bool) -> bool:
        """Say that this rank's step is bad; whether it is for this rank to explain.

        Args:
            is_own: whether the bad values were made on this rank.
        """
        if not self.company.is_met or self._level is not None:
            return True
        self._level = self.company.agreed(_OWN if is_own else _FAILED)
        return is_own or self._level < _OWN

    def meet(self, monitor: HasRanks, look: Callable[[], None]) -> None:
        """Look at a step, and hear what the others saw.

        Raises:
            NonFiniteError: as the user's policy says, on every rank.
        """
        companions = self._companions
        is_busy = self.company.is_met or joins(self._called)
        if companions is None or companions.is_gone or is_busy:
            look()
            return
        self._level = None
        known = monitor.findings
        stopped: NonFiniteError | NumcheckWarning | None = None
        with self.company.met(companions, monitor):
            try:
                monitor.settle_debts()
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
                level = self.company.agreed(_FOUND if own else _HEALTHY)
            if level == _HEALTHY:
                return ()
            self.company.agreed(_HEALTHY)
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
