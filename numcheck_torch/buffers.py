# SPDX-License-Identifier: Apache-2.0
"""Buffers that a forward call changes: which they are, and what they held before it.

The first call in training mode is compared before and after, by value, because
running statistics are written without a new version. From then on only what changed
is copied.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BufferSnapshot", "BufferWatch", "buffer_places"]

BufferPlace = tuple[dict[str, torch.Tensor | None], str]
"""A module's table of buffers, and a name in it."""


@dataclasses.dataclass(frozen=True, slots=True)
class BufferSnapshot:
    """Buffers as they were before a forward call: (table, name, tensor, copy)."""

    entries: tuple[
        tuple[dict[str, torch.Tensor | None], str, torch.Tensor, torch.Tensor], ...
    ]

    @classmethod
    def of(cls, places: Sequence[BufferPlace]) -> BufferSnapshot:
        """Copy the buffers at the given places."""
        found = []
        for table, name in places:
            buffer = table.get(name)
            if buffer is not None:
                found.append((table, name, buffer, buffer.detach().clone()))
        return cls(tuple(found))

    def restore(self) -> None:
        """Write the buffers back; a buffer that was replaced is put back itself."""
        with torch.no_grad():
            for table, name, buffer, copied in self.entries:
                buffer.copy_(copied)
                table[name] = buffer

    def changed(self) -> tuple[BufferPlace, ...]:
        """Return the places whose buffer is no longer what was copied.

        Running statistics are written without a new version, hence the comparison.
        """
        return tuple(
            (table, name)
            for table, name, buffer, copied in self.entries
            if table.get(name) is not buffer or not _same(buffer, copied)
        )


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.is_floating_point() or a.is_complex():
        return torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)
    return torch.equal(a, b)


def buffer_places(model: torch.nn.Module) -> list[BufferPlace]:
    """Return the place of every buffer of the model, shared ones once."""
    seen: set[int] = set()
    places = []
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and id(buffer) not in seen:
                seen.add(id(buffer))
                places.append((module._buffers, name))
    return places


class BufferWatch:
    """Takes the snapshot each call needs, once it knows which buffers calls change."""

    def __init__(self) -> None:
        self._changing: list[BufferPlace] | None = None

    def before(self, model: torch.nn.Module) -> BufferSnapshot:
        """Return the snapshot for a call about to be made."""
        if self._changing is None:
            places = buffer_places(model) if model.training else []
            return BufferSnapshot.of(places)
        return BufferSnapshot.of(self._changing)

    def after(self, model: torch.nn.Module, taken: BufferSnapshot) -> BufferSnapshot:
        """Return what of the snapshot is worth keeping, after the call."""
        if self._changing is not None or not model.training:
            return taken
        self._changing = list(taken.changed())
        changing = {(id(table), name) for table, name in self._changing}
        return BufferSnapshot(
            tuple(e for e in taken.entries if (id(e[0]), e[1]) in changing)
        )
