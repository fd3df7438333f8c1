# SPDX-License-Identifier: Apache-2.0
"""Turns values into sites: which site holds a tensor's value, and what it measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from numcheck.record.site import Site
from numcheck_torch.dataflow import Memory, Stale
from numcheck_torch.dtypes import format_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

    from numcheck.record.site import Effect, Phase, Role
    from numcheck.record.trace import TraceBuilder
    from numcheck_torch.meters import Meter
    from numcheck_torch.operators import Operator

__all__ = ["SiteLog"]

_KEPT_IN: Final[dict[Role, Phase]] = {
    "loss": "forward",
    "output": "forward",
    "gradient": "backward",
    "parameter": "optimizer",
    "state": "optimizer",
}
# Casts that keep every value.
_WIDENINGS: Final = frozenset(
    {
        ("float16", "float32"),
        ("float16", "float64"),
        ("bfloat16", "float32"),
        ("bfloat16", "float64"),
        ("float32", "float64"),
    }
)


class SiteLog:
    """The sites of one step, the tensors that hold their values, and their summaries.

    Args:
        builder: receives the sites.
        meter: measures values as they appear.
        observe: called with each site that was measured, and its tensor.
        extremes_only: whether a cast to a wider format measures as its operand does.
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
        # Sites that hold exactly the elements of an earlier one.
        self._same: dict[int, int] = {}

    def site_of(self, tensor: torch.Tensor) -> int:
        """Return the site of a tensor's value, making one where there is none."""
        found = self.memory.find(tensor)
        if isinstance(found, int):
            return found
        if isinstance(found, Stale):
            return self._assembled(tensor, found)
        op, role = self.memory.expected(tensor) or ("constant", "constant")
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
        self._same[index] = self._same.get(parent, parent)
        return index

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
        if self._is_same(site, parents):
            self._same[index] = self._same.get(parents[0], parents[0])
            return index, False
        return index, effect != "uninitialised"

    def read(self) -> None:
        """Put what was measured, in one transfer, into the builder."""
        found = self._meter.read()
        for index in range(len(self.builder.sites)):
            summary = found.get(self._same.get(index, index))
            if summary is not None:
                self.builder.measure(index, summary)

    def spread(self, values: dict[int, float]) -> dict[int, float]:
        """Return values by site, given also to the sites of the same elements."""
        copies = {i: values[s] for i, s in self._same.items() if s in values}
        return values | copies

    def extend(self, sites: Sequence[Site], same: Mapping[int, int]) -> None:
        """Add sites that are complete.

        Args:
            sites: their indices follow those there are.
            same: sites among them that hold exactly the elements of another.
        """
        self.builder.sites.extend(sites)
        for site in sites:
            before = same.get(site.index)
            if before is None:
                self._same.pop(site.index, None)
            else:
                self._same[site.index] = self._same.get(before, before)

    def restart(self, builder: TraceBuilder) -> None:
        """Go on with the next step, of which nothing is known yet."""
        self.builder = builder
        self.memory = Memory()

    def _append(self, site: Site) -> int:
        index = self.builder.add(site)
        self._same.pop(index, None)
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
        site = _site(
            "view",
            tensor,
            parents=stale.sites,
            phase=last.phase,
            scope=last.scope,
            scope_type=last.scope_type,
            source=last.source,
        )
        return self._add(site, tensor)

    def _effect(
        self, operator: Operator, tensor: torch.Tensor, parents: tuple[int, ...]
    ) -> Effect:
        """Return the effect; a move is a cast where it changes the dtype."""
        if operator.effect not in ("move", "cast") or len(parents) != 1:
            return operator.effect
        before = self.builder.sites[parents[0]].dtype
        return "move" if before == format_name(tensor.dtype) else "cast"

    def _is_same(self, site: Site, parents: tuple[int, ...]) -> bool:
        """Whether an output measures as the one operand it was moved or cast from."""
        if site.effect not in ("move", "cast") or len(parents) != 1:
            return False
        parent = self.builder.sites[parents[0]]
        if math.prod(parent.shape) != math.prod(site.shape):
            return False
        is_exact = (parent.dtype, site.dtype) in _WIDENINGS and self._extremes_only
        return parent.dtype == site.dtype or is_exact


def _site(op: str, tensor: torch.Tensor, **fields: Any) -> Site:
    return Site(
        index=-1,
        op=op,
        dtype=format_name(tensor.dtype),
        shape=tuple(tensor.shape),
        **{"effect": "move", **fields},
    )
