# SPDX-License-Identifier: Apache-2.0
"""What a module's code keeps outside the module: in closures, globals, other objects.

A hook appends activations to a list, or counts its calls. A replay runs it again, so
the list and the count are put back with the module's own attributes.
"""

from __future__ import annotations

import inspect
import types
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from numcheck_torch.places import is_library
from numcheck_torch.reach import names_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from numcheck_torch.attributes import AttributePlace

__all__ = ["places_of_code"]

_TABLES: Final = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
)
_KEPT: Final = (int, float, list, dict, set, deque)


class _Cells(dict[str, Any]):
    """The cells of a closure, by the names that the function knows them by."""

    def __init__(self, function: types.FunctionType) -> None:
        names, cells = function.__code__.co_freevars, function.__closure__ or ()
        super().__init__(zip(names, cells, strict=True))

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key].cell_contents
        except ValueError:
            return default  # not filled yet: a name defined later

    def __setitem__(self, key: str, value: Any) -> None:
        self[key].cell_contents = value

    def pop(self, key: str, default: Any = None) -> Any:
        """Leave a cell as it is: one that was empty belongs to nobody here."""
        return default


def places_of_code(model: torch.nn.Module) -> list[AttributePlace]:
    """Return where the code of a model's hooks and calls keeps numbers and containers.

    Example:
        >>> import torch
        >>> model, seen = torch.nn.Linear(1, 1), []
        >>> def note(module, args, out):
        ...     seen.append(out)
        >>> _ = model.register_forward_hook(note)
        >>> [name for _, name in places_of_code(model)]
        ['seen']
    """
    found: dict[tuple[int, str], AttributePlace] = {}
    for function in _functions(model):
        for table, name in _places(function):
            value = table.get(name)
            # Equal numbers are one object, wherever they are counted.
            owner = table if isinstance(value, int | float) else value
            found.setdefault((id(owner), name), (table, name))
    return list(found.values())


def _functions(model: torch.nn.Module) -> Iterator[object]:
    kinds = set()
    for module in model.modules():
        for table in _TABLES:
            yield from vars(module).get(table, {}).values()
        kinds.add(type(module))
    for kind in kinds:
        yield inspect.getattr_static(kind, "forward", None)
    for parameter in model.parameters():
        yield from (parameter._backward_hooks or {}).values()


def _places(function: object) -> Iterator[AttributePlace]:
    if isinstance(function, types.MethodType):
        if not is_library(function.__func__.__code__.co_filename):
            owner = getattr(function.__self__, "__dict__", None)
            if isinstance(owner, dict):
                yield from _kept(owner, list(owner))
        function = function.__func__
    if not isinstance(function, types.FunctionType):
        return
    if is_library(function.__code__.co_filename):
        return
    cells = _Cells(function)
    yield from _kept(cells, list(cells))
    named = [n for n in names_of(function.__code__) if n in function.__globals__]
    yield from _kept(function.__globals__, named)


def _kept(table: dict[str, Any], names: list[str]) -> Iterator[AttributePlace]:
    for name in names:
        value = table.get(name)
        if isinstance(value, _KEPT) and not name.startswith("__"):
            yield table, name
