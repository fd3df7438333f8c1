# SPDX-License-Identifier: Apache-2.0
"""Which site a tensor of a dump came from, recognised by what the dump says of it.

A dump names calls, not the flow of values between them. The same tensor measured as
one call's result and as another's argument gives the same numbers, to the last bit.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numcheck.record.foreign.msprobe_tensor import Tensor

__all__ = ["Ledger", "Value", "among"]

_REACH = 12  # unread results among which a slice may be looked for


@dataclasses.dataclass(slots=True)
class Value:
    """A tensor that is known to lie at a site.

    Attributes:
        site: index of the site.
        tensor: what the dump says of it.
        scope: path of the module that made it.
        is_read: whether some call has read it.
        is_cut: whether parts of it were read, as after a split.
    """

    site: int
    tensor: Tensor
    scope: str = ""
    is_read: bool = False
    is_cut: bool = False


class Ledger:
    """Tensors met so far, in execution order."""

    def __init__(self) -> None:
        """Start without any."""
        self._open: list[Value] = []
        self._exact: dict[Hashable, list[Value]] = {}
        self._loose: dict[Hashable, list[Value]] = {}

    def add(self, value: Value) -> None:
        """Enter a tensor."""
        self._open.append(value)
        self._exact.setdefault(value.tensor.key, []).append(value)
        self._loose.setdefault(value.tensor.loose_key, []).append(value)

    def find(self, tensor: Tensor) -> Value | None:
        """Return where a tensor came from: itself, else a reshaped view of it.

        Equal constants, and tensors full of NaN, look alike: then the newest is
        taken that no call has read yet.
        """
        if not tensor.is_known:
            return None
        found = self._exact.get(tensor.key) or self._loose.get(tensor.loose_key)
        if not found:
            return None
        unread = [v for v in found if not v.is_read]
        return (unread or found)[-1]

    def find_same(self, tensor: Tensor) -> Value | None:
        """Return the newest tensor entered that looks exactly like `tensor`."""
        found = self._exact.get(tensor.key) if tensor.is_known else None
        return found[-1] if found else None

    def sliced_from(self, tensor: Tensor) -> Value | None:
        """Return the newest unread result of which a tensor can be a part."""
        for value in reversed(self._waiting()[-_REACH:]):
            if _can_be_part(tensor, value.tensor):
                value.is_cut = True
                return value
        return None

    def unread(self, scope: str | None = None) -> list[Value]:
        """Return the results that no call has read, of one module or of all."""
        return [
            v
            for v in self._waiting()
            if not v.is_read and (scope is None or _lies_in(v.scope, scope))
        ]

    def _waiting(self) -> list[Value]:
        """Return the tensors that some call may still read; others are let go of."""
        self._open = [v for v in self._open if not v.is_read or v.is_cut]
        return self._open


def among(tensor: Tensor, values: Iterable[Value]) -> Value | None:
    """Return the newest of `values` that is `tensor`, or a reshaped view of it."""
    if not tensor.is_known:
        return None
    held = list(values)
    exact = [v for v in held if v.tensor.key == tensor.key]
    loose = [v for v in held if v.tensor.loose_key == tensor.loose_key]
    return next(reversed(exact or loose), None)


def _can_be_part(tensor: Tensor, whole: Tensor) -> bool:
    part, all_of_it = tensor.summary, whole.summary
    if tensor.dtype != whole.dtype or part.n >= all_of_it.n or part.n == 0:
        return False
    edges = (part.low, part.high, all_of_it.low, all_of_it.high)
    if any(edge is None or not math.isfinite(edge) for edge in edges):
        return False
    low, high, least, most = (float(edge or 0) for edge in edges)
    is_constant = low == high
    return least <= low and high <= most and not is_constant


def _lies_in(scope: str, outer: str) -> bool:
    return not outer or scope == outer or scope.startswith(f"{outer}.")
