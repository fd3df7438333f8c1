# SPDX-License-Identifier: Apache-2.0
"""Runs that take all ranks: one asks for it, and all of them run it at once.

A step that gathers, reduces or normalises across processes waits for ever when one
process runs it alone. So a rank whose step is bad says what it wants to run; the
others, who wait for its verdict, run the same on their part of the step.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from numcheck.diagnose.laboratory import CannotRunError
from numcheck_torch import modes
from numcheck_torch.distributed.gathered import Gathered
from numcheck_torch.distributed.patience import is_timeout, limited
from numcheck_torch.distributed.place import is_connected
from numcheck_torch.distributed.quiet import Quiet
from numcheck_torch.distributed.sharding import is_spread, sharded_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import torch

    from numcheck_torch.distributed.companions import Companions

__all__ = ["Company", "Helps", "Request"]

_WANTS = 100
"""Higher than every verdict: a rank has something to run before it."""

T = TypeVar("T")


class Request(NamedTuple):
    """What all ranks are to run.

    Attributes:
        what: the laboratory's method.
        arguments: its arguments.
        ruined: parameters that the update before ruined, where the step before is
            meant; None for the present step.
        unscaled: with a loss scale of 1.
    """

    what: str
    arguments: tuple[Any, ...] = ()
    ruined: tuple[str, ...] | None = None
    unscaled: bool = False


_GATHER = Request("gather")
_FIRST = Request("first_values")


class Helps(Protocol):
    """A monitor that runs its part of a step when another rank asks for it."""

    @property
    def model(self) -> torch.nn.Module:
        """The module without wrappers."""

    @property
    def initial(self) -> Mapping[str, torch.Tensor] | None:
        """Copies of the parameters at the first watched step, where kept."""

    def prepared(self, request: Request) -> tuple[str, object]:
        """Return why it cannot be run, else an empty text; and what will be run."""

    def assist(self, request: Request) -> None:
        """Run it."""

    def fault(self, where: str) -> None:
        """Record the error being handled."""


class Company:
    """The ranks that look at one step together.

    Attributes:
        is_met: whether they do now.
    """

    def __init__(self) -> None:
        self.is_met = False
        self._companions: Companions | None = None
        self._helper: Helps | None = None
        self._gathered: Gathered | None = None
        self._first: dict[str, torch.Tensor] = {}
        self._is_joint = False
        self._is_lost = False

    @contextlib.contextmanager
    def met(self, companions: Companions, helper: Helps) -> Iterator[None]:
        """Be together for a block; all ranks enter it.

        Args:
            companions: who they are.
            helper: runs this rank's part.
        """
        self.is_met, self._companions, self._helper = True, companions, helper
        try:
            yield
        finally:
            self.is_met = False
            self._helper = None
            gathered, self._gathered = self._gathered, None
            self._first = {}
            if gathered is not None:
                gathered.release()

    def agreed(self, number: int) -> int:
        """Return the highest of the ranks' numbers, all wishes granted before."""
        while True:
            level = self._those.highest(number)
            if level < _WANTS:
                return level
            chosen, refusal = self._chosen(None)
            if not refusal:
                self._serve(chosen)

    def run(self, request: Request, own: Callable[[], T]) -> T:
        """Run something on all ranks.

        Args:
            request: what the others are to run.
            own: this rank's part.

        Raises:
            CannotRunError: not all of them are there, or one cannot.
        """
        if self._is_joint:
            return own()
        if not self.is_met or self._is_lost:
            raise CannotRunError("refusal.speaks")
        while True:
            self._those.highest(_WANTS)
            chosen, refusal = self._chosen(request)
            if chosen == request:
                if refusal:
                    raise CannotRunError(refusal)
                with self._joint():
                    return own()
            if not refusal:
                self._serve(chosen)

    @contextlib.contextmanager
    def alone(self, model: torch.nn.Module) -> Iterator[Gathered | None]:
        """Run a block on this rank, its collectives refused unless all run it.

        Args:
            model: its parameters are whole inside, where they are sharded.

        Yields:
            The gathered parameters, where they are sharded.
        """
        if not is_connected():
            yield None
            return
        with contextlib.ExitStack() as stack:
            if sharded_modules(model):
                if self._gathered is None:
                    self.run(_GATHER, self._gather)
                gathered: Any = self._gathered
                stack.enter_context(gathered.shown())
            elif is_spread(model) and not self._is_joint and not self.is_met:
                raise CannotRunError("refusal.sharded")
            if not self._is_joint:
                stack.enter_context(Quiet())
            yield self._gathered

    def first_values(self) -> Mapping[str, torch.Tensor]:
        """Return the whole parameters of the first watched step, by name.

        Raises:
            CannotRunError: not every rank has its shards of them.
        """
        if not self._first:
            self.run(_FIRST, self._gather_first)
        return self._first

    def reduce_dtypes(self) -> dict[str, torch.dtype]:
        """Return what a sharded model casts gradients to before averaging, by name."""
        return {} if self._gathered is None else self._gathered.reduce_dtypes()

    @property
    def _those(self) -> Companions:
        if self._companions is None:
            raise CannotRunError("refusal.speaks")
        return self._companions

    def _chosen(self, own: Request | None) -> tuple[Request, str]:
        """Return whose wish is granted now, and why it cannot be."""
        wishes: list[Request | None] = self._those.words(own)
        chosen = next(wish for wish in wishes if wish is not None)
        heard: list[tuple[str, object]] = self._those.words(self._prepared(chosen))
        refusal = next((why for why, _ in heard if why), "")
        if not refusal and any(shape != heard[0][1] for _, shape in heard):
            refusal = "refusal.ranks_differ"
        return chosen, refusal

    def _prepared(self, request: Request) -> tuple[str, object]:
        helper = self._helper
        try:
            if helper is None or self._is_lost:
                return "refusal.speaks", None
            if request == _GATHER:
                return Gathered.why_not(helper.model), None
            if request == _FIRST:
                held = helper.initial or {}
                return "" if held else "refusal.first_parameters_large", tuple(held)
            return helper.prepared(request)
        except Exception as error:  # noqa: BLE001 - the others wait for a word
            return str(error) or type(error).__name__, None

    def _serve(self, request: Request) -> None:
        helper = self._helper
        if helper is None:
            return
        try:
            with self._joint():
                if request == _GATHER:
                    self._gather()
                elif request == _FIRST:
                    self._gather_first()
                else:
                    helper.assist(request)
        except CannotRunError:
            return
        except Exception:  # noqa: BLE001 - the rank that asked tells what it saw
            helper.fault("fault.assistance")

    def _gather(self) -> None:
        if self._helper is not None and self._gathered is None:
            gathered = Gathered(self._helper.model)
            with modes.none():
                gathered.gather()
            self._gathered = gathered

    def _gather_first(self) -> None:
        if self._helper is not None and self._gathered is not None:
            with modes.none():
                self._first = self._gathered.of_values(self._helper.initial or {})

    @contextlib.contextmanager
    def _joint(self) -> Iterator[None]:
        """Run a block with the others, who are waited for a limited time."""
        self._is_joint = True
        try:
            with limited():
                yield
        except RuntimeError as error:
            if not is_timeout(error):
                raise
            self._is_lost = True
            raise CannotRunError("refusal.company_lost") from error
        finally:
            self._is_joint = False
