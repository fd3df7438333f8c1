# SPDX-License-Identifier: Apache-2.0
"""Records a step that goes as the last one went, by measuring alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numcheck_torch.script import Entry, Script, Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from numcheck_torch.calls import Call, Surroundings
    from numcheck_torch.meters import Meter
    from numcheck_torch.site_log import SiteLog

__all__ = ["Rehearsal"]


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

    def restart(self) -> None:
        """Begin the next step."""
        self._script.rewind()

    def begin(self, call: Call) -> Entry | None:
        """Return the last step's entry for a call about to run, its reads measured."""
        entry = self._next(call.overload)
        if entry is None:
            return None
        # What a call writes to is gone once it ran; the rest can be held against the
        # entry afterwards.
        written = call.operator.written and call.operator.writes(call.args, call.kwargs)
        slots = entry.slots[-len(written) :] if written else ()
        is_other = entry.numbers is not None and entry.numbers != _numbers(call)
        if is_other or (written and not all(map(Slot.fits, slots, written))):
            self._script.cut()
            return None
        if entry.reads:
            read = [t for tensors in call.read_tensors() for t in tensors]
            self._take_reads(entry, read)
        return entry

    def complete(
        self, entry: Entry, outputs: Sequence[tuple[int, torch.Tensor, bool]]
    ) -> bool:
        """Take an entry's sites over; False when the outputs look otherwise."""
        if not entry.fits([tensor for _, tensor, _ in outputs]):
            self._script.cut()
            return False
        sites = self._log.builder.sites
        sites.extend(entry.sites)
        for slot, (_, tensor, is_write) in zip(entry.slots, outputs, strict=True):
            self._log.memory.set(tensor, slot.site, is_write=is_write)
            if slot.is_measured:
                self._meter.take(slot.site, tensor)
        if entry.slots:
            first = entry.slots[0].site
            self._around.remember(first, sites[first].phase)
        self._script.advance()
        return True

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
        is_derived = any(self._log.is_derived(site) for site, _, _ in outcome)
        numbers = _numbers(call) if is_derived else None
        self._append(call.overload, first, outcome, known, numbers)

    def repeat(self, what: tuple[str, str], tensor: torch.Tensor) -> int | None:
        """Take a source or kept value over; None when it is to be added anew."""
        entry = self._next(what)
        if entry is None:
            return None
        self._take_reads(entry, [tensor])
        site = entry.slots[0].site
        is_source = entry.slots[0].is_measured
        if not entry.slots[0].fits(tensor):
            self._script.cut()
            return None
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

    def mark(self, what: object) -> None:
        """Note something that adds its own sites; another one ends the likeness."""
        if self._next(what) is not None:
            self._script.advance()
        else:
            first = len(self._log.builder.sites)
            scope = self._around.scopes.top
            self._script.append(Entry(what, scope, first, (), (), ()))

    def _append(
        self,
        what: Any,
        first: int,
        outcome: Sequence[tuple[int, torch.Tensor, bool]],
        reads: dict[int, int],
        numbers: tuple[tuple[str, str | float], ...] | None = None,
    ) -> None:
        slots = tuple(Slot(s, t.shape, t.dtype, m) for s, t, m in outcome)
        sites = tuple(self._log.builder.sites[first:])
        pairs = tuple((position, site) for site, position in reads.items())
        scope = self._around.scopes.top
        entry = Entry(what, scope, first, sites, pairs, slots, numbers)
        self._script.append(entry)

    def _next(self, what: Any) -> Entry | None:
        first = len(self._log.builder.sites)
        return self._script.next(what, self._around.scopes.top, first)

    def _take_reads(self, entry: Entry, tensors: Sequence[torch.Tensor]) -> None:
        for position, site in entry.reads:
            if position < len(tensors):
                self._log.memory.set(tensors[position], site, is_write=False)
                self._meter.take(site, tensors[position])


def _numbers(call: Call) -> tuple[tuple[str, str | float], ...]:
    return call.operator.scalars(call.args, call.kwargs)
