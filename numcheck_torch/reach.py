# SPDX-License-Identifier: Apache-2.0
"""What a function can reach: its closure, the globals it names, itself, arguments."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.places import is_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["modules_of", "names_of", "optimizers_of"]

_DEEPEST = 3
_WIDEST = 1000


def modules_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, torch.nn.Module]:
    """Return the modules with parameters that a function reaches, outermost only.

    Returns:
        By the name under which the function knows each.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(1, 1))
        >>> layer = model[0]
        >>> list(modules_of(lambda x: model(layer(x)), (), {}))
        ['model']
    """
    found: dict[str, torch.nn.Module] = {}
    for name, value in _reachable(function, args, kwargs):
        if not isinstance(value, torch.nn.Module) or value in found.values():
            continue
        if any(True for _ in value.parameters()):
            found[_unique(name, found)] = value
    inner = {id(m) for root in found.values() for m in root.modules() if m is not root}
    return {name: m for name, m in found.items() if id(m) not in inner}


def optimizers_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.optim.Optimizer, ...]:
    """Return the optimizers that a function reaches, each once."""
    found = {
        id(value): value
        for _, value in _reachable(function, args, kwargs)
        if isinstance(value, torch.optim.Optimizer)
    }
    return tuple(found.values())


def _reachable(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    yield from _inside(function, getattr(function, "__name__", "step"), 0, seen)
    for place, value in enumerate(args):
        yield from _inside(value, f"argument{place}", 0, seen)
    for name, value in kwargs.items():
        yield from _inside(value, name, 0, seen)


def _inside(
    value: Any, name: str, depth: int, seen: set[int]
) -> Iterator[tuple[str, Any]]:
    if id(value) in seen or isinstance(value, torch.Tensor | types.ModuleType | type):
        return
    seen.add(id(value))
    if isinstance(value, torch.nn.Module | torch.optim.Optimizer):
        yield name, value
        return
    if depth < _DEEPEST:
        for key, child in _parts(value, name):
            yield from _inside(child, key, depth + 1, seen)


def _parts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield what a value holds, under the names a reader of the program would use."""
    if isinstance(value, types.MethodType):
        yield name, value.__self__
        yield name, value.__func__
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, Mapping):
        if len(value) <= _WIDEST:
            yield from ((str(key), child) for key, child in value.items())
    elif isinstance(value, list | tuple | set):
        if len(value) <= _WIDEST:
            yield from ((f"{name}{i}", child) for i, child in enumerate(value))
    elif callable(value) and hasattr(value, "__wrapped__"):
        yield name, value.__wrapped__
    elif not isinstance(value, str | bytes | int | float | None):
        yield from _attributes(value)


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    if is_library(function.__code__.co_filename):
        return
    for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not filled yet: a name defined later in the outer function
    for name in names_of(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    yield from ((str(i), v) for i, v in enumerate(function.__defaults__ or ()))


def names_of(code: types.CodeType) -> Iterator[str]:
    """Yield the global names used by a function and by the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_of(constant)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object of the user's own class."""
    package = type(value).__module__.partition(".")[0]
    if package not in ("builtins", "torch", "numpy", "numcheck_torch"):
        yield from getattr(value, "__dict__", {}).items()


def _unique(name: str, taken: Mapping[str, object]) -> str:
    # ModuleDict has no room for dots, nor for the names of its own methods.
    name = name.replace(".", "_")
    if hasattr(torch.nn.ModuleDict, name):
        name = f"{name}_"
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}{number}"
    return candidate
