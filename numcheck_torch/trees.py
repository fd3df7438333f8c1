# SPDX-License-Identifier: Apache-2.0
"""The tensors inside what a program passes around: containers, dataclasses, mappings.

PyTorch's own tree functions stop at dataclasses and unregistered mappings, which
models return every day.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.distributions import Distribution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["flat", "map_leaves", "map_tensors", "named_tensors", "tensors"]

_PLAIN = (str, int, float, type(None), torch.dtype, torch.device)


def tensors(tree: object) -> Iterator[torch.Tensor]:
    """Yield every tensor inside `tree`, in a fixed order.

    Inside are lists, tuples, mappings, dataclasses and probability distributions.

    Example:
        >>> [t.item() for t in tensors({"a": torch.tensor(1), "b": [torch.tensor(2)]})]
        [1, 2]
    """
    if isinstance(tree, torch.Tensor):
        yield tree
        return
    values = tree if isinstance(tree, list | tuple) else _values(tree)
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif not isinstance(value, _PLAIN):
            yield from tensors(value)


def flat(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among the arguments of a call; quick where they are few.

    Example:
        >>> [t.item() for t in flat((torch.tensor(1), None), {})]
        [1]
    """
    if kwargs:
        return list(tensors((args, kwargs)))
    found: list[torch.Tensor] = []
    for value in args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif not isinstance(value, _PLAIN):
            return list(tensors(args))
    return found


def named_tensors(tree: object, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (path, tensor) for every tensor inside `tree`, paths joined by dots."""
    if isinstance(tree, torch.Tensor):
        yield prefix, tree
    else:
        for key, value in _children(tree) or ():
            yield from named_tensors(value, f"{prefix}.{key}" if prefix else str(key))


def map_leaves(tree: Any, function: Callable[[Any], Any]) -> Any:
    """Return `tree` with `function` of each leaf in its place.

    A container none of whose leaves changed is returned as it is, so that objects of
    the user's own classes are never rebuilt without need.

    Example:
        >>> map_leaves({"a": [1, 2]}, lambda leaf: leaf * 10)
        {'a': [10, 20]}
    """
    children = _children(tree)
    if children is None:
        return function(tree)
    new = {key: map_leaves(value, function) for key, value in children}
    if all(new[key] is value for key, value in children):
        return tree
    return _rebuilt(tree, new)


def map_tensors(tree: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """Return `tree` with `function` of each tensor in its place."""

    def each(leaf: Any) -> Any:
        return function(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return map_leaves(tree, each)


def _values(tree: Any) -> Iterable[Any]:
    if isinstance(tree, Mapping):
        return tree.values()
    return [value for _, value in _children(tree) or ()]


def _children(tree: Any) -> list[tuple[Any, Any]] | None:
    """Return the (key, value) pairs of a container; None for a leaf."""
    if isinstance(tree, (torch.Tensor, _PLAIN)):
        return None
    if isinstance(tree, list | tuple):
        return list(enumerate(tree))
    if isinstance(tree, Mapping):
        return list(tree.items())
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return [(f.name, getattr(tree, f.name, None)) for f in dataclasses.fields(tree)]
    if isinstance(tree, Distribution):
        # What is worked out when it is asked for comes later, or not at all.
        return list(vars(tree).items())
    return None


def _rebuilt(tree: Any, new: dict[Any, Any]) -> Any:
    if isinstance(tree, tuple):
        values = new.values()
        return type(tree)(*values) if hasattr(tree, "_fields") else tuple(values)
    if isinstance(tree, list):
        return list(new.values())
    if type(tree) is dict:
        return new
    other = copy.copy(tree)
    for key, value in new.items():
        if isinstance(tree, Mapping):
            other[key] = value
        else:
            object.__setattr__(other, key, value)
    return other
