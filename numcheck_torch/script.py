# SPDX-License-Identifier: Apache-2.0
"""What the last step did, operator by operator, for a next step that does the same.

Training repeats itself: the k-th operator of a step is nearly always the k-th of the
step before, of the same shape, in the same module, with the same parents. Then its
sites are taken over and only its values are measured. At the first difference the rest
is forgotten and recorded anew.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from numcheck.record.site import Site

__all__ = ["Entry", "Script", "Slot"]


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """One output of a call: its site and what it looked like."""

    site: int
    shape: torch.Size
    dtype: torch.dtype
    is_measured: bool

    def fits(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor looks like it."""
        return tensor.shape == self.shape and tensor.dtype is self.dtype


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One call of an operator, or one source or kept value.

    Attributes:
        what: the operator's overload; for a source or kept value its kind and name.
        scope: module it ran in.
        first: number of sites before it.
        sites: all sites it added.
        reads: operands that were first seen here: (position, site).
        slots: its outputs.
        is_bare: whether it is an operator that writes to none of its arguments, each
            of which was seen before.
        bundles: positions of outputs that are measured together.
        singles: positions of outputs that are measured one by one.
        given: plain numbers among its arguments.
        facts: how many details of its sites tell of plain arguments.
    """

    what: Any
    scope: tuple[str, str]
    first: int
    sites: tuple[Site, ...]
    reads: tuple[tuple[int, int], ...]
    slots: tuple[Slot, ...]
    is_bare: bool = False
    bundles: tuple[tuple[int, ...], ...] = ()
    singles: tuple[int, ...] = ()
    given: tuple[float, ...] = ()
    facts: int = 0

    def fits(self, outputs: Sequence[tuple[int, torch.Tensor, bool]]) -> bool:
        """Whether outputs look like those of the last step.

        Args:
            outputs: see `numcheck_torch.calls.outputs_of`.
        """
        if len(outputs) != len(self.slots):
            return False
        for slot, (_, tensor, _) in zip(self.slots, outputs, strict=True):
            if tensor.shape != slot.shape or tensor.dtype is not slot.dtype:
                return False
        return True


class Script:
    """The calls of the last step, and how far this one has followed them.

    Attributes:
        is_kept: whether this step went the last one's way so far.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._at = 0
        self.is_kept = True

    def rewind(self) -> None:
        """Start over with the next step; what the last one did not reach is gone."""
        self.cut()
        self._at = 0
        self.is_kept = bool(self._entries)

    def next(self, what: Any, scope: tuple[str, str], first: int) -> Entry | None:
        """Return what this call was in the last step; None when it was another.

        Args:
            what: see `Entry`.
            scope: module it runs in.
            first: number of sites there are.
        """
        if self._at == len(self._entries):
            return None
        entry = self._entries[self._at]
        if entry.what == what and entry.scope == scope and entry.first == first:
            return entry
        self.cut()
        return None

    def foreseen(self, what: Any, scope: tuple[str, str], first: int) -> Entry | None:
        """Return what a bare operator was in the last step; see `next`."""
        if self._at == len(self._entries):
            return None
        entry = self._entries[self._at]
        is_it = entry.what is what and entry.is_bare
        return (
            entry if is_it and entry.scope == scope and entry.first == first else None
        )

    def replace(self, entry: Entry) -> None:
        """Put another entry in place of the one that comes next."""
        self._entries[self._at] = entry

    def advance(self) -> None:
        """Say that the present entry came true."""
        self._at += 1

    def cut(self) -> None:
        """Forget what followed in the last step: this one goes another way."""
        del self._entries[self._at :]
        self.is_kept = False

    def append(self, entry: Entry) -> None:
        """Note a call that was recorded anew."""
        self._entries.append(entry)
        self._at += 1
        self.is_kept = False
