# SPDX-License-Identifier: Apache-2.0
"""Turns values into sites: which site holds a tensor's value, and what it measured."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import torch

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.record.columns import SummaryColumns
from numcheck.record.site import Site
from numcheck_torch.dataflow import Memory, Stale
from numcheck_torch.derived import Derived
from numcheck_torch.dtypes import MONOTONE, format_name
from numcheck_torch.monotone import WORTH_IT, change_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numcheck.record.site import Effect, Phase, Role
    from numcheck.record.trace import TraceBuilder
    from numcheck_torch.meters import Meter
    from numcheck_torch.monotone import Change
    from numcheck_torch.operators import Operator

__all__ = ["SiteLog"]

_KEPT_IN: Final[dict[Role, Phase]] = {
    "loss": "forward",
    "output": "forward",
    "gradient": "backward",
    "parameter": "optimizer",
    "state": "optimizer",
}


_JOINING: Final = frozenset({"aten.cat.default", "aten.stack.default"})


class SiteLog:
    """The sites of one step, the tensors that hold their values, and their summaries.

    Args:
        builder: receives the sites.
        meter: measures values as they appear.
        observe: called with each site that was measured, and its tensor.
        extremes_only: whether extremes are all that is measured, so that those of a
            cast follow from its operand's.
    """

    def __init__(
        self,
        builder: TraceBuilder,
        meter: Meter,
        observe: Callable[[int, torch.Tensor], None] | None = None,
        *,
        extremes_only: bool = False,
    ) -> None:
        self.builder = builder
        self.memory = Memory()
        self.phase: Phase = "forward"
        self._meter = meter
        self._observe = observe
        self._extremes_only = extremes_only
        self._derived = Derived()
        self._renamed: dict[str, tuple[int, Site, Site]] = {}

    def site_of(self, tensor: torch.Tensor) -> int:
        """Return the site of a tensor's value, making one where there is none."""
        found = self.memory.find(tensor)
        if isinstance(found, int):
            return found
        if isinstance(found, Stale):
            return self._assembled(tensor, found)
        expected = self.memory.expected(tensor)
        if expected is None and self._is_inside_collective(tensor):
            return self._assembled(tensor, Stale((len(self.builder.sites) - 1,)))
        op, role = expected or ("constant", "constant")
        return self.source(tensor, op, role)

    def source(self, tensor: torch.Tensor, op: str, role: Role) -> int:
        """Add a value the step is given."""
        phase: Phase = "data" if role in ("input", "target") else self.phase
        site = _site(op, tensor, kind="source", role=role, phase=phase)
        return self._add(site, tensor)

    def keep(self, tensor: torch.Tensor, op: str, role: Role) -> int:
        """Add a value the step hands back."""
        parent = self.site_of(tensor)
        phase = _KEPT_IN.get(role, self.phase)
        site = _site(op, tensor, kind="kept", role=role, parents=(parent,), phase=phase)
        index = self._append(site)
        self._derived.same[index] = self._derived.source(parent)
        return index

    def rename(self, tensor: torch.Tensor, op: str, role: Role) -> None:
        """Say what a value is that was read before anybody named it."""
        sites = self.builder.sites
        at, before, after = self._renamed.get(op, (-1, None, None))
        if after is not None and at < len(sites) and sites[at] is before:
            sites[at] = after
            return
        found = self.memory.find(tensor)
        if not isinstance(found, int):
            return
        site = sites[found]
        while _is_moved(site):
            found = site.parents[0]
            site = sites[found]
        if site.kind == "source" and site.role == "constant":
            sites[found] = dataclasses.replace(site, op=op, role=role, phase="data")
        self._renamed[op] = found, site, sites[found]

    def anchor(self, site: Site, same: int | None) -> int:
        """Add a value whose data flow is not followed; perhaps that of another site."""
        index = self._append(
            site if same is None else dataclasses.replace(site, parents=(same,))
        )
        if same is not None:
            self._derived.same[index] = self._derived.source(same)
        return index

    def sum_up(self, site: int, tensor: torch.Tensor) -> None:
        """Measure the sums of a site's value too."""
        self._meter.sum_up(self._derived.source(site), tensor)

    def output(
        self,
        operator: Operator,
        tensor: torch.Tensor,
        *,
        parents: tuple[int, ...],
        is_write: bool,
        **fields: Any,
    ) -> tuple[int, bool]:
        """Add an operator's output; return its site and whether it is to be measured.

        It is not where it has the elements of an earlier site, or none yet.
        """
        effect = self._effect(operator, tensor, parents)
        site = _site(
            operator.name,
            tensor,
            parents=parents,
            effect=effect,
            family="cast" if effect == "cast" else operator.family,
            **fields,
        )
        index = self._append(site)
        self.memory.set(tensor, index, is_write=is_write)
        if operator.is_unfinished:
            if is_write:
                # Nothing tells when it is done; the next reader waited for it.
                self.memory.disturb(tensor, index)
            return index, False
        if effect == "uninitialised":
            return index, False
        is_real = effect == "compute" and not tensor.is_complex()
        if (
            self._follows(index, site, parents)
            or (is_real and self._keeps_order(index, site, parents))
            or self._joins(index, site, parents)
        ):
            return index, False
        return index, True

    def read(self) -> None:
        """Put what was measured, in one transfer, into the builder."""
        found, sites = self._meter.read(), self.builder.sites
        before = self.builder.summaries
        self.builder.summaries = (
            self._derived.complete(found, sites, self._meter.summed)
            if isinstance(found, SummaryColumns)
            else self._derived.spread(found, len(sites))
        )
        for site, summary in before.items():
            self.builder.summaries.setdefault(site, summary)

    def spread(self, values: dict[int, float]) -> dict[int, float]:
        """Return values by site, given also to the sites of the same elements."""
        return self._derived.spread(values, len(self.builder.sites))

    def extend(
        self,
        sites: Sequence[Site],
        following: Collection[int],
        changes: Mapping[int, Change],
        copies: Mapping[int, int],
    ) -> None:
        """Add sites that are complete.

        Args:
            sites: their indices follow those there are.
            following: sites among them whose measure follows from their operand's.
            changes: what makes the extremes of others of their one operand's.
            copies: earlier sites whose values others have again.
        """
        derived = self._derived
        self.builder.sites.extend(sites)
        for site in sites:
            index = site.index
            derived.forget(index)
            if index in following:
                self._follows(index, site, site.parents)
            elif index in changes:
                derived.made[index] = derived.source(site.parents[0])
                derived.changes[index] = changes[index]
            elif index in copies:
                derived.same[index] = derived.source(copies[index])

    def restart(self, builder: TraceBuilder) -> None:
        """Go on with the next step, of which nothing is known yet."""
        self.builder = builder
        self.memory = Memory()

    def _append(self, site: Site) -> int:
        index = self.builder.add(site)
        self._derived.forget(index)
        return index

    def _add(self, site: Site, tensor: torch.Tensor) -> int:
        index = self._append(site)
        self.memory.set(tensor, index, is_write=False)
        self._meter.take(index, tensor)
        if self._observe is not None:
            self._observe(index, tensor)
        return index

    def _assembled(self, tensor: torch.Tensor, stale: Stale) -> int:
        """Add the value of memory that was changed through other views of it."""
        last = self.builder.sites[stale.sites[-1]]
        # What a collective left could not be measured before somebody waited for it.
        is_received = last.family == "collective"
        named = {"family": last.family, "effect": last.effect} if is_received else {}
        site = _site(
            last.op if is_received else "view",
            tensor,
            **named,
            parents=stale.sites,
            phase=last.phase,
            scope=last.scope,
            scope_type=last.scope_type,
            source=last.source,
        )
        return self._add(site, tensor)

    def _is_inside_collective(self, tensor: torch.Tensor) -> bool:
        """Whether memory nobody knows is what a collective works on meanwhile.

        Gloo reduces a copy of its own, and then hands out the parts by operators.
        """
        last = self.builder.sites[-1] if self.builder.sites else None
        if last is None or last.family != "collective" or len(last.parents) != 1:
            return False
        given = self.builder.sites[last.parents[0]]
        is_like = given.dtype == format_name(tensor.dtype)
        return is_like and math.prod(given.shape) == tensor.numel()

    def _effect(
        self, operator: Operator, tensor: torch.Tensor, parents: tuple[int, ...]
    ) -> Effect:
        """Return the effect; a move is a cast where it changes the dtype."""
        if operator.effect not in ("move", "cast") or len(parents) != 1:
            return operator.effect
        before = self.builder.sites[parents[0]].dtype
        return "move" if before == format_name(tensor.dtype) else "cast"

    def _follows(self, index: int, site: Site, parents: tuple[int, ...]) -> bool:
        """Whether what an output measures follows from its operand's measure."""
        is_moved = site.effect in ("move", "cast") and site.family != "collective"
        if not is_moved or len(parents) != 1:
            return False
        before = self._derived.source(parents[0])
        parent = self.builder.sites[before]
        if math.prod(parent.shape) != math.prod(site.shape):
            return False
        if parent.dtype == site.dtype:
            self._derived.same[index] = before
            return True
        if self._extremes_only and MONOTONE.issuperset((parent.dtype, site.dtype)):
            self._derived.made[index] = before
            return True
        return False

    def _keeps_order(self, index: int, site: Site, parents: tuple[int, ...]) -> bool:
        """Whether its extremes are made of its operand's; note how."""
        if not self._extremes_only or len(parents) != 1:
            return False
        size = math.prod(site.shape)
        before = self._derived.source(parents[0])
        parent = self.builder.sites[before]
        is_like = parent.dtype == site.dtype and math.prod(parent.shape) == size
        if size < WORTH_IT or not is_like or not self._is_measured(before):
            return False
        change = change_of(site)
        if change is None:
            return False
        self._derived.made[index], self._derived.changes[index] = before, change
        return True

    def _joins(self, index: int, site: Site, parents: tuple[int, ...]) -> bool:
        """Whether it is all elements of several others, as they are; note it."""
        size = math.prod(site.shape)
        is_joined = site.op in _JOINING and site.dtype in MONOTONE
        if not is_joined or size < WORTH_IT or not self._extremes_only:
            return False
        given = tuple(self._derived.source(p) for p in parents)
        sites = self.builder.sites
        total = sum(math.prod(sites[g].shape) for g in given)
        is_like = all(sites[g].dtype == site.dtype for g in given)
        if total != size or not is_like or not all(map(self._is_measured, given)):
            return False
        self._derived.joined[index] = given
        return True

    def _is_measured(self, site: int) -> bool:
        """Whether the extremes of a site will be known."""
        root = self.builder.sites[self._derived.root(site)]
        return root.effect != "uninitialised" and root.family != "collective"

    def heed(self, site: Site) -> bool:
        """Take the numbers of a site that is derived; False where it cannot be."""
        changes = self._derived.changes
        if site.index not in changes:
            return True
        change = change_of(site)
        if change is not None:
            changes[site.index] = change
        return change is not None

    def holder(self, tensor: torch.Tensor) -> int:
        """Return the site that measured a tensor's value; -1 where none did."""
        found = self.memory.find(tensor)
        return self._derived.source(found) if isinstance(found, int) else -1


def _is_moved(site: Site) -> bool:
    """Whether a site only hands on what one other holds."""
    is_moved = site.kind == "operator" and site.effect in ("move", "cast")
    return is_moved and len(site.parents) == 1


def _site(op: str, tensor: torch.Tensor, **fields: Any) -> Site:
    if tensor.is_nested and tensor.layout is torch.strided:
        # It has no shape, and most of what would measure it refuses it.
        raise CannotRunError("refusal.nested")
    return Site(
        index=-1,
        op=op,
        dtype=format_name(tensor.dtype),
        shape=tuple(tensor.shape),
        **{"effect": "move", **fields},
    )
