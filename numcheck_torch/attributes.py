# SPDX-License-Identifier: Apache-2.0
"""Plain attributes of modules that a forward call changes: step counts, kept states.

A replay calls the module again, and a count in Python goes on where a buffer would be
put back. So the attributes are put back as well: those of a call before it is made
again, and all of them when the replay is over. Tensors among them, or in containers
among them, get the elements back that they held.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch

from numcheck_torch.kinds import is_plain
from numcheck_torch.places import is_library

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AttributePlace",
    "AttributeSnapshot",
    "attribute_places",
    "have_same_values",
    "write_back",
]

AttributePlace = tuple[dict[str, Any], str]
"""A module's attributes, and a name among them."""

_OWN: Final = frozenset(vars(torch.nn.Module()))  # tables of hooks and parameters
_PLAIN: Final = (
    bool, int, float, complex, str, bytes, tuple, torch.Tensor, list, dict, set, deque,
)  # fmt: skip
_CONTAINERS: Final = frozenset(
    {list, dict, set, deque, OrderedDict, defaultdict, Counter}
)
"""Those that can be emptied and filled again; what a subclass allows is its own."""
_ABSENT: Final = object()
_MOST: Final = 1000
"""Objects in a container that is copied at every call; a diary grows with the steps."""
_MOST_BYTES: Final = 64 << 20
"""Size of the tensors of an attribute that are copied; more is data, not a state."""

_Values = tuple[tuple[torch.Tensor, torch.Tensor], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class AttributeSnapshot:
    """Attributes as they were.

    Attributes:
        entries: (table, name, value, copy of what a container held, tensors that the
            value is or holds, each with a copy).
    """

    entries: tuple[tuple[dict[str, Any], str, Any, Any, _Values], ...] = ()

    @classmethod
    def of(
        cls,
        places: Iterable[AttributePlace],
        *,
        large: bool = True,
        graphs: bool = True,
    ) -> AttributeSnapshot:
        """Note the attributes at the given places.

        Args:
            places: theirs.
            large: note what large containers hold; else only which they are.
            graphs: note values that gradients flow through as well.
        """
        entries = []
        for table, name in places:
            value = table.get(name, _ABSENT)
            if not graphs and _has_graph(value):
                continue
            if large or _is_small(value):
                entry = table, name, value, _contents(value), _values(value)
            else:
                entry = table, name, value, None, ()
            entries.append(entry)
        return cls(tuple(entries))

    def restore(self) -> None:
        """Put the attributes back, and into containers what they held."""
        for table, name, value, held, values in self.entries:
            if value is _ABSENT:
                table.pop(name, None)
                continue
            table[name] = value
            if not _is_as(value, held):
                _refill(value, held)
            for tensor, copied in values:
                # What was not written may be kept for a backward, and stays untouched.
                if not (_is_freed(tensor) or have_same_values(tensor, copied)):
                    write_back(tensor, copied)

    def changed_by(self, model: torch.nn.Module) -> AttributeSnapshot:
        """Return what of it a call of the model has changed, made or taken away."""
        kept = [
            entry
            for entry in self.entries
            if entry[0].get(entry[1], _ABSENT) is not entry[2]
            or not _is_as(entry[2], entry[3])
            or not all(
                _is_freed(t) or have_same_values(t, copied) for t, copied in entry[4]
            )
        ]
        known = {(id(table), name) for table, name in self.places}
        made = [p for p in attribute_places(model) if (id(p[0]), p[1]) not in known]
        return AttributeSnapshot(
            (*kept, *((table, name, _ABSENT, None, ()) for table, name in made))
        )

    @property
    def places(self) -> list[AttributePlace]:
        """Where the attributes are."""
        return [(entry[0], entry[1]) for entry in self.entries]


def attribute_places(model: torch.nn.Module) -> list[AttributePlace]:
    """Return the places of a model's plain attributes, and of its own objects'.

    What a wrapper for several devices keeps of itself is its own affair.
    """
    tables: dict[int, dict[str, Any]] = {}
    for module in model.modules():
        if type(module).__module__.startswith("torch.distributed"):
            continue
        tables[id(vars(module))] = vars(module)
        for name, value in vars(module).items():
            if name not in _OWN and _is_own_object(value):
                tables[id(vars(value))] = vars(value)
    return [
        (table, name)
        for table in tables.values()
        for name, value in list(table.items())
        if name not in _OWN and (value is None or isinstance(value, _PLAIN))
    ]


def _is_own_object(value: Any) -> bool:
    """Whether it is an object with attributes, of a class that the user wrote."""
    if not isinstance(getattr(value, "__dict__", None), dict):
        return False
    if isinstance(value, torch.nn.Module | torch.Tensor | type | ModuleType):
        return False
    if callable(getattr(value, "__get__", None)):
        return False  # a function: its attributes are nobody's state
    kind: Any = type(value)
    return _is_own_class(kind)


@functools.cache
def _is_own_class(kind: Any) -> bool:
    """Whether a class is neither Python's nor PyTorch's."""
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return False
    home = sys.modules.get(kind.__module__)
    return not is_library(getattr(home, "__file__", None) or "")


def have_same_values(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors look alike and hold the same, NaN for NaN.

    Example:
        >>> nan = torch.tensor([1.0, float("nan")])
        >>> have_same_values(nan, nan.clone())
        True
    """
    a = a.detach()
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_floating_point() or a.is_complex():
        return torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)
    return torch.equal(a, b)


def write_back(tensor: torch.Tensor, copied: torch.Tensor) -> None:
    """Give a tensor the elements it held, and its shape where it was resized since.

    Example:
        >>> seen = torch.zeros(0)
        >>> before = seen.clone()
        >>> write_back(seen.resize_(3).fill_(1.0), before)
        >>> seen
        tensor([])
    """
    if tensor.shape == copied.shape:
        with torch.no_grad():  # into itself: a recorder knows it by what it is
            tensor.copy_(copied)
    else:
        tensor.data = copied.clone()


def _values(value: object) -> _Values:
    """Return the tensors that a value is or holds, each with a copy."""
    states = [t for t in _tensors(value) if _is_state(t)]
    if sum(t.nbytes for t in states) > _MOST_BYTES:
        return ()
    return tuple([(t, t.detach().clone()) for t in states])


def _has_graph(value: object) -> bool:
    return any(tensor.grad_fn is not None for tensor in _tensors(value))


def _tensors(value: object) -> list[torch.Tensor]:
    """Return the tensors that a value is or holds."""
    held: Iterable[object] = (value,)
    if isinstance(value, dict):
        held = value.values()
    elif isinstance(value, list | tuple | set | deque):
        held = value
    return [t for t in held if isinstance(t, torch.Tensor)]


def _is_state(tensor: torch.Tensor) -> bool:
    """Whether a forward may write to it; parameters are an optimizer's."""
    if not is_plain(type(tensor)) or isinstance(tensor, torch.nn.Parameter):
        return False
    is_dense = tensor.layout is torch.strided and not tensor.is_meta
    if not is_dense or tensor.is_inference():
        return False
    return not _is_freed(tensor)


def _is_freed(tensor: torch.Tensor) -> bool:
    """Whether its memory was given back meanwhile, as sharded models do."""
    return tensor.untyped_storage().nbytes() == 0


def _is_small(value: object) -> bool:
    return not isinstance(value, list | dict | set | deque) or len(value) <= _MOST


def _contents(value: Any) -> Any:
    return value.copy() if type(value) in _CONTAINERS else None


def _is_as(value: object, held: object) -> bool:
    """Whether a container holds the very objects that it held."""
    if isinstance(value, list | deque) and isinstance(held, list | deque):
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
    (value.extend if isinstance(value, list | deque) else value.update)(held)
