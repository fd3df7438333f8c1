# SPDX-License-Identifier: Apache-2.0
"""What a forward call changes in its module: buffers and plain attributes.

The first call in training mode is compared before and after, by value, because
running statistics are written without a new version. From then on only what changed
is copied.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.attributes import (
    AttributeSnapshot,
    attribute_places,
    have_same_values,
    write_back,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck_torch.attributes import AttributePlace

__all__ = ["BufferMarks", "BufferSnapshot", "BufferWatch", "buffer_places"]

_UNTOUCHED = AttributeSnapshot()

BufferPlace = tuple[dict[str, torch.Tensor | None], str]
"""A module's table of buffers, and a name in it."""


@dataclasses.dataclass(frozen=True, slots=True)
class BufferSnapshot:
    """A module's state before a forward call.

    Attributes:
        entries: its buffers: (table, name, tensor, copy).
        attributes: its plain attributes.
    """

    entries: tuple[
        tuple[dict[str, torch.Tensor | None], str, torch.Tensor, torch.Tensor], ...
    ]
    attributes: AttributeSnapshot = _UNTOUCHED

    @classmethod
    def of(
        cls,
        places: Sequence[BufferPlace],
        attributes: Sequence[AttributePlace] = (),
        *,
        large: bool = True,
        graphs: bool = True,
    ) -> BufferSnapshot:
        """Copy the buffers at the given places, and note the attributes.

        Args:
            places: of the buffers.
            attributes: of the attributes.
            large: see `AttributeSnapshot.of`.
            graphs: likewise.
        """
        if not (places or attributes):
            return _NOTHING
        found = []
        for table, name in places:
            buffer = table.get(name)
            if buffer is not None:
                found.append((table, name, buffer, buffer.detach().clone()))
        noted = AttributeSnapshot.of(attributes, large=large, graphs=graphs)
        return cls(tuple(found), noted)

    def restore(self) -> None:
        """Write the buffers back; what was replaced is put back itself."""
        with torch.no_grad():
            self.attributes.restore()
            for table, name, buffer, copied in self.entries:
                write_back(buffer, copied)
                table[name] = buffer

    def named(self, model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
        """Return (name, copy) of the buffers that are the model's."""
        paths = {
            (id(module._buffers), name): f"{prefix}.{name}" if prefix else name
            for prefix, module in model.named_modules()
            for name, _ in module.named_buffers(recurse=False)
        }
        places = [
            ((id(table), name), copied) for table, name, _, copied in self.entries
        ]
        return [(paths[place], copied) for place, copied in places if place in paths]

    def changed(self) -> tuple[BufferPlace, ...]:
        """Return the places whose buffer is no longer what was copied.

        Running statistics are written without a new version, hence the comparison.
        """
        return tuple(
            (table, name)
            for table, name, buffer, copied in self.entries
            if table.get(name) is not buffer or not have_same_values(buffer, copied)
        )


_NOTHING = BufferSnapshot(())


@dataclasses.dataclass(frozen=True, slots=True)
class BufferMarks:
    """Which tensor each buffer is, and how often it was written, by name.

    What is written but keeps its value (an average too coarse to move) shows here, and
    nowhere in a snapshot.
    """

    marks: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, model: torch.nn.Module) -> BufferMarks:
        """Take the marks of a model's buffers of real numbers."""
        return cls({n: (id(b), _version(b)) for n, b in _real(model)})

    def written(self, model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
        """Return (name, buffer) of those written or replaced since."""
        return [
            (n, b) for n, b in _real(model) if self.marks.get(n) != (id(b), _version(b))
        ]


def _real(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(n, b) for n, b in model.named_buffers() if b.is_floating_point()]


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def buffer_places(model: torch.nn.Module) -> list[BufferPlace]:
    """Return the place of every buffer of the model, shared ones once."""
    seen: set[int] = set()
    places = []
    for module in model.modules():
        table: Any = module._buffers
        if not isinstance(table, dict):
            # A scripted module keeps its own, which can be written and not replaced.
            table = dict(module.named_buffers(recurse=False))
        for name, buffer in table.items():
            if buffer is not None and id(buffer) not in seen:
                seen.add(id(buffer))
                places.append((table, name))
    return places


class BufferWatch:
    """Takes the snapshot each call needs, once it knows what calls change."""

    def __init__(self) -> None:
        self._changing: list[BufferPlace] | None = None
        self._attributes: list[AttributePlace] = []

    def before(self, model: torch.nn.Module, *, is_first: bool) -> BufferSnapshot:
        """Return the snapshot for a call about to be made.

        Args:
            model: what is called.
            is_first: whether it is the first call of the step. What a later one finds
                with a graph was made by an earlier one, and is made again with it.
        """
        if self._changing is None:
            if not model.training:
                return _NOTHING
            return BufferSnapshot.of(buffer_places(model), attribute_places(model))
        if not (self._changing or self._attributes):
            return _NOTHING
        return BufferSnapshot.of(
            self._changing, self._attributes, large=False, graphs=is_first
        )

    def after(self, model: torch.nn.Module, taken: BufferSnapshot) -> BufferSnapshot:
        """Return what of the snapshot is worth keeping, after the call."""
        if self._changing is not None or not model.training:
            return taken
        self._changing = list(taken.changed())
        attributes = taken.attributes.changed_by(model)
        self._attributes = attributes.places
        changing = {(id(table), name) for table, name in self._changing}
        return BufferSnapshot(
            tuple(e for e in taken.entries if (id(e[0]), e[1]) in changing), attributes
        )
