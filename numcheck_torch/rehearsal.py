# SPDX-License-Identifier: Apache-2.0
"""Records a step that goes as the last one went, by measuring alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from numcheck_torch.carried import Carried
from numcheck_torch.meters import may_go_together
from numcheck_torch.script import Entry, Script, Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch._ops import OpOverload

    from numcheck_torch.calls import Call, Surroundings
    from numcheck_torch.meters import Meter
    from numcheck_torch.site_log import SiteLog

__all__ = ["Rehearsal"]

_FEWEST: Final = 4
"""Values that are measured together rather than one by one."""


class Rehearsal:
    """Follows the script of the last step as long as this one keeps to it.

    Args:
        log: receives the sites taken over.
        meter: measures their values.
        around: says which module is running.
    """

    def __init__(self, log: SiteLog, meter: Meter, around: Surroundings) -> None:
        self._log = log
        self._meter = meter
        self._around = around
        self._script = Script()
        self._carried = Carried(log)

    def restart(self) -> None:
        """Begin the next step."""
        self._script.rewind()

    def foreseen(
        self, overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Entry | None:
        """Return the last step's entry for an operator with nothing to look at before.

        None for all others, which `begin` knows.
        """
        entry = self._script.foreseen(
            overload, self._around.scopes.top, len(self._log.builder.sites)
        )
        if entry is None or (entry.given and entry.given != _given(args, kwargs)):
            return None
        return entry

    def finish(self) -> None:
        """Note what the step that was read left behind."""
        self._carried.keep(is_alike=self._script.is_kept)

    @property
    def is_kept(self) -> bool:
        """Whether this step went the last one's way so far."""
        return self._script.is_kept

    def begin(self, call: Call) -> Entry | None:
        """Return the last step's entry for a call about to run, its reads measured."""
        entry = self._next(call.overload)
        if entry is None:
            return None
        # What a call writes to is gone once it ran; the rest can be held against the
        # entry afterwards.
        written = call.operator.written and call.operator.writes(call.args, call.kwargs)
        slots = entry.slots[-len(written) :] if written else ()
        if written and not all(map(Slot.fits, slots, written)):
            self._script.cut()
            return None
        if entry.given and entry.given != _given(call.args, call.kwargs):
            entry = self._renumbered(entry, call)
        if entry is not None and entry.reads:
            read = [t for tensors in call.read_tensors() for t in tensors]
            self._take_reads(entry, read)
        return entry

    def _renumbered(self, entry: Entry, call: Call) -> Entry | None:
        """Give an entry the numbers of this step; None where they change its kind."""
        facts = call.operator.scalars(call.args, call.kwargs)
        literals = call.operator.literals(call.args, call.kwargs)
        sites = list(entry.sites)
        for slot in entry.slots:
            at = slot.site - entry.first
            detail = (*facts, *sites[at].detail[entry.facts :])
            sites[at] = dataclasses.replace(sites[at], detail=detail, literals=literals)
            if not self._log.heed(sites[at]):
                self._script.cut()
                return None
        entry = dataclasses.replace(
            entry,
            sites=tuple(sites),
            given=_given(call.args, call.kwargs),
            facts=len(facts),
        )
        self._script.replace(entry)
        return entry

    def complete(
        self,
        entry: Entry,
        call: Call | None,
        outputs: Sequence[tuple[int, torch.Tensor, bool]],
    ) -> bool:
        """Take an entry's sites over; False when the outputs look otherwise.

        Args:
            entry: what the call was in the last step.
            call: the call; None for one whose operands were all seen before.
            outputs: see `numcheck_torch.calls.outputs_of`.
        """
        if not entry.fits(outputs):
            self._unread(entry, call)
            self._script.cut()
            return False
        sites, slots = self._log.builder.sites, entry.slots
        sites += entry.sites
        note, take = self._log.memory.set, self._meter.take
        for slot, (_, tensor, is_write) in zip(slots, outputs, strict=True):
            note(tensor, slot.site, is_write=is_write)
        for position in entry.singles:
            take(slots[position].site, outputs[position][1])
        for bundle in entry.bundles:
            self._meter.take_together(
                [slots[position].site for position in bundle],
                [outputs[position][1] for position in bundle],
            )
        if slots:
            first = slots[0].site
            self._around.remember(first, sites[first].phase)
        self._script.advance()
        return True

    def _unread(self, entry: Entry, call: Call | None) -> None:
        """Forget operands whose sites were to come with the others of an entry."""
        if call is None or not entry.reads:
            return
        read = [t for tensors in call.read_tensors() for t in tensors]
        for position, _ in entry.reads:
            if position < len(read):
                self._log.memory.forget(read[position])

    def note(
        self,
        call: Call,
        first: int,
        outcome: Sequence[tuple[int, torch.Tensor, bool]],
    ) -> None:
        """Write down a call that was recorded anew, for the next step.

        Args:
            call: the call, its operands found.
            first: number of sites before it.
            outcome: (site, tensor, whether it is measured) of its outputs.
        """
        flat = [site for sites in call.operands for site in sites]
        known: dict[int, int] = {}
        for position, site in enumerate(flat):
            if site >= first:
                known.setdefault(site, position)
        is_bare = not (known or call.operator.written)
        self._append(call.overload, first, outcome, known, call, is_bare=is_bare)

    def repeat(self, what: tuple[str, str], tensor: torch.Tensor) -> int | None:
        """Take a source or kept value over; None when it is to be added anew."""
        entry = self._next(what)
        if entry is None:
            return None
        site = entry.slots[0].site
        is_source = entry.slots[0].is_measured
        if not entry.slots[0].fits(tensor):
            self._script.cut()
            return None
        self._take_reads(entry, [tensor])
        self._log.builder.sites.extend(entry.sites)
        if is_source:
            self._log.memory.set(tensor, site, is_write=False)
            self._meter.take(site, tensor)
        self._script.advance()
        return site

    def note_value(
        self, what: tuple[str, str], first: int, site: int, tensor: torch.Tensor
    ) -> None:
        """Write down a source or kept value that was added anew."""
        is_source = what[0] == "source"
        reads = {first: 0} if site > first else {}
        self._append(what, first, [(site, tensor, is_source)], reads)

    def resume(self, run: Any, tensors: Sequence[Any]) -> Any | None:
        """Take over what something that adds its own sites reads; None when anew.

        Args:
            run: equals what the last step's was noted as, which is returned.
            tensors: its operands.
        """
        entry = self._next(run)
        if entry is None:
            return None
        self._log.builder.sites.extend(entry.sites)
        self._take_reads(entry, tensors)
        self._script.advance()
        return entry.what

    def note_run(self, run: Any, first: int, sites: Sequence[int | None]) -> None:
        """Write down the sites of the operands that `resume` did not take over."""
        reads: dict[int, int] = {}
        for position, site in enumerate(sites):
            if site is not None and site >= first:
                reads.setdefault(site, position)
        self._append(run, first, [], reads)

    def _append(
        self,
        what: Any,
        first: int,
        outcome: Sequence[tuple[int, torch.Tensor, bool]],
        reads: dict[int, int],
        call: Call | None = None,
        *,
        is_bare: bool = False,
    ) -> None:
        slots = tuple(Slot(s, t.shape, t.dtype, m) for s, t, m in outcome)
        sites = tuple(self._log.builder.sites[first:])
        pairs = tuple((position, site) for site, position in reads.items())
        scope = self._around.scopes.top
        bundles = _bundles(outcome)
        bundled = {position for bundle in bundles for position in bundle}
        singles = tuple(
            i
            for i, (_, _, is_measured) in enumerate(outcome)
            if is_measured and i not in bundled
        )
        entry = Entry(
            what, scope, first, sites, pairs, slots, is_bare, bundles, singles
        )
        given = () if call is None else _given(call.args, call.kwargs)
        if call is not None and given:
            facts = len(call.operator.scalars(call.args, call.kwargs))
            entry = dataclasses.replace(entry, given=given, facts=facts)
        self._script.append(entry)

    def _next(self, what: Any) -> Entry | None:
        first = len(self._log.builder.sites)
        return self._script.next(what, self._around.scopes.top, first)

    def _take_reads(self, entry: Entry, tensors: Sequence[torch.Tensor]) -> None:
        for position, site in entry.reads:
            if position >= len(tensors):
                continue
            tensor = tensors[position]
            self._log.memory.set(tensor, site, is_write=False)
            known = self._carried.known(entry.sites[site - entry.first], tensor)
            if known is None:
                self._meter.take(site, tensor)
            else:
                self._meter.know(site, known)


def _bundles(
    outcome: Sequence[tuple[int, torch.Tensor, bool]],
) -> tuple[tuple[int, ...], ...]:
    """Return the positions of short values that can be measured as rows of one."""
    if len(outcome) < _FEWEST:
        return ()
    alike: dict[Any, list[int]] = {}
    for i, (_, tensor, is_measured) in enumerate(outcome):
        if is_measured and may_go_together(tensor):
            key = tensor.shape, tensor.dtype, tensor.device
            alike.setdefault(key, []).append(i)
    return tuple(tuple(found) for found in alike.values() if len(found) >= _FEWEST)


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[float, ...]:
    """Return the plain numbers among an operator's arguments."""
    found = [a for a in args if type(a) is float or type(a) is int]
    if kwargs:
        found += [a for a in kwargs.values() if type(a) is float or type(a) is int]
    return tuple(found)
