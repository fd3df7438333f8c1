# SPDX-License-Identifier: Apache-2.0
"""Plain attributes of modules that a forward call changes: step counts, kept states.

A replay calls the module again, and a count in Python goes on where a buffer would be
put back. So the attributes are put back as well: those of a call before it is made
again, and all of them when the replay is over.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["AttributePlace", "AttributeSnapshot", "attribute_places"]

AttributePlace = tuple[dict[str, Any], str]
"""A module's attributes, and a name among them."""

_OWN: Final = frozenset(vars(torch.nn.Module()))  # tables of hooks and parameters
_PLAIN: Final = (
    bool, int, float, complex, str, bytes, tuple, torch.Tensor, list, dict, set,
)  # fmt: skip
_ABSENT: Final = object()
_MOST: Final = 1000
"""Objects in a container that is copied at every call; a diary grows with the steps."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttributeSnapshot:
    """Attributes as they were: (table, name, value, copy of what a container held)."""

    entries: tuple[tuple[dict[str, Any], str, Any, Any], ...] = ()

    @classmethod
    def of(
        cls, places: Iterable[AttributePlace], *, large: bool = True
    ) -> AttributeSnapshot:
        """Note the attributes at the given places; of large containers only which."""
        found = ((table, name, table.get(name, _ABSENT)) for table, name in places)
        return cls(
            tuple(
                (t, n, value, _contents(value) if large or _is_small(value) else None)
                for t, n, value in found
            )
        )

    def restore(self) -> None:
        """Put the attributes back, and into containers what they held."""
        for table, name, value, held in self.entries:
            if value is _ABSENT:
                table.pop(name, None)
                continue
            table[name] = value
            if not _is_as(value, held):
                _refill(value, held)

    def changed_by(self, model: torch.nn.Module) -> AttributeSnapshot:
        """Return what of it a call of the model has changed, made or taken away."""
        kept = [
            entry
            for entry in self.entries
            if entry[0].get(entry[1], _ABSENT) is not entry[2]
            or not _is_as(entry[2], entry[3])
        ]
        known = {(id(table), name) for table, name in self.places}
        made = [p for p in attribute_places(model) if (id(p[0]), p[1]) not in known]
        return AttributeSnapshot(
            (*kept, *((table, name, _ABSENT, None) for table, name in made))
        )

    @property
    def places(self) -> list[AttributePlace]:
        """Where the attributes are."""
        return [(table, name) for table, name, _, _ in self.entries]


def attribute_places(model: torch.nn.Module) -> list[AttributePlace]:
    """Return the places of a model's plain attributes.

    What a wrapper for several devices keeps of itself is its own affair.
    """
    return [
        (vars(module), name)
        for module in model.modules()
        if not type(module).__module__.startswith("torch.distributed")
        for name, value in list(vars(module).items())
        if name not in _OWN and (value is None or isinstance(value, _PLAIN))
    ]


def _is_small(value: object) -> bool:
    return not isinstance(value, list | dict | set) or len(value) <= _MOST


def _contents(value: object) -> Any:
    return value.copy() if isinstance(value, list | dict | set) else None


def _is_as(value: object, held: object) -> bool:
    """Whether a container holds the very objects that it held."""
    if isinstance(value, list) and isinstance(held, list):
        return len(value) == len(held) and all(map(_is_same, value, held))
    if isinstance(value, dict) and isinstance(held, dict):
        return list(value) == list(held) and all(
            map(_is_same, value.values(), held.values())
        )
    if isinstance(value, set) and isinstance(held, set):
        return {id(v) for v in value} == {id(v) for v in held}
    return True


def _is_same(one: object, other: object) -> bool:
    return one is other


def _refill(value: Any, held: Any) -> None:
    """Give a container back what it held."""
    value.clear()
    (value.extend if isinstance(value, list) else value.update)(held)
