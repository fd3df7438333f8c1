# SPDX-License-Identifier: Apache-2.0
"""What people call a leaf: its argument's name and its place inside that argument."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import jax
from jax.tree_util import keystr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "argument_names",
    "key_value",
    "leaf_name",
    "leaf_paths",
    "plain_path",
    "result_name",
]

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def argument_names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """Return names for the first `count` positional arguments of a call.

    A variadic parameter counts its arguments; without a readable signature all are
    counted.

    >>> argument_names(lambda w, *batch: w, 3)
    ('w', 'batch[0]', 'batch[1]')
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return tuple(f"args[{i}]" for i in range(count))
    names = [p.name for p in parameters if p.kind in _POSITIONAL]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    extra = (f"{rest}[{i}]" for i in range(max(0, count - len(names))))
    return (*names[:count], *extra)


def leaf_paths(treedef: Any, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    """Return the pytree path of each leaf.

    Args:
        treedef: the structure.
        leaves: its leaves, for containers that take nothing but arrays.

    >>> leaf_paths(jax.tree.structure({"w": 0}), [1.5])
    ((DictKey(key='w'),),)
    """
    try:
        tree = jax.tree.unflatten(treedef, range(treedef.num_leaves))
    except Exception:  # noqa: BLE001 - the user's own container checks what it holds
        tree = jax.tree.unflatten(treedef, leaves)
    return tuple(path for path, _ in jax.tree_util.tree_leaves_with_path(tree))


def key_value(key: Any) -> Any:
    """Return what a key of a pytree path holds: an index, a dict's key, a name."""
    for field in ("key", "idx", "name"):
        if hasattr(key, field):
            return getattr(key, field)
    return key


def plain_path(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a path's bare keys, which compare across kinds of container."""
    return tuple(key_value(k) for k in path)


def leaf_name(path: tuple[Any, ...], names: tuple[str, ...]) -> str:
    """Return the name of a leaf of ``(args, kwargs)``, e.g. ``params['w']``."""
    where, argument, *inside = path
    key = key_value(argument)
    head = names[key] if key_value(where) == 0 else str(key)
    return head + _inside(tuple(inside))


def result_name(path: tuple[Any, ...]) -> str:
    """Return the name of a leaf of what a function returned, e.g. ``[0]['w']``."""
    return _inside(path)


def _inside(path: tuple[Any, ...]) -> str:
    """Return a path as code; a module's variables are named without ``.value``."""
    text = keystr(path)
    return text.removesuffix(".value")
