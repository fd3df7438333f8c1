# SPDX-License-Identifier: Apache-2.0
"""Flax NNX: modules that share and change their variables, and have no names in JAX.

Nothing here loads flax; where the user's program did not, there is nothing to do.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import TYPE_CHECKING, Any

import jax

from numcheck_jax.naming import plain_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["Rebuilt", "holds_modules", "rebuilder", "scopes", "set_back"]

_MARK = "__numcheck_scope__"
Rebuilt = tuple[tuple[Any, ...], "Mapping[str, Any]", "Callable[[], Sequence[Any]]"]


def holds_modules(tree: object) -> bool:
    """Whether a pytree of arguments holds an NNX object.

    >>> holds_modules({"w": 1.0})
    False
    """
    return bool(_modules(tree))


def _modules(tree: object) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the outermost NNX objects of a pytree with their paths."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None:
        return []
    kind: type = nnx.Pytree
    leaves, _ = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda x: isinstance(x, kind)
    )
    return [(path, x) for path, x in leaves if isinstance(x, kind)]


def rebuilder(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    paths: Sequence[tuple[Any, ...]],
    treedef: Any,
) -> Callable[[Sequence[Any]], Rebuilt]:
    """Return what makes fresh arguments out of new leaves.

    Fresh arguments are changed instead of the user's. Modules that share variables
    share them afterwards too, which a pytree alone would not keep.

    Returns:
        A function from leaves to ``(args, kwargs, current)``; ``current()`` gives the
        leaves as they are after the fresh arguments were used.
    """
    if not holds_modules((args, kwargs)):
        return functools.partial(_from_tree, treedef)
    nnx: Any = sys.modules["flax.nnx"]
    graph, state = nnx.split((args, dict(kwargs)))
    at = {plain_path(p): i for i, p in enumerate(paths)}
    known, order = _positions(state, at)
    if not known:
        return functools.partial(_from_tree, treedef)

    def rebuild(leaves: Sequence[Any]) -> Rebuilt:
        fresh = jax.tree.unflatten(
            jax.tree.structure(state), [leaves[i] for i in order]
        )
        new_args, new_kwargs = nnx.merge(graph, fresh)

        def current() -> Sequence[Any]:
            after = list(leaves)
            latest = nnx.state((new_args, new_kwargs))
            for path, leaf in jax.tree_util.tree_leaves_with_path(latest):
                if (i := at.get(plain_path(path))) is not None:
                    after[i] = leaf
            return after

        return new_args, new_kwargs, current

    return rebuild


def _positions(state: Any, at: Mapping[Any, int]) -> tuple[bool, list[int]]:
    """Return the position of each leaf of a graph's state among a call's leaves."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    found = [at.get(plain_path(p)) for p, _ in leaves]
    order = [i for i in found if i is not None]
    return len(order) == len(leaves), order


def set_back(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    paths: Sequence[tuple[Any, ...]],
    leaves: Sequence[Any],
) -> None:
    """Give the modules among the arguments the values of earlier leaves again."""
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is None:
        return
    old = {plain_path(p): leaf for p, leaf in zip(paths, leaves, strict=True)}
    for path, module in _modules((args, dict(kwargs))):
        _, state = nnx.split(module)
        current, structure = jax.tree_util.tree_flatten_with_path(state)
        root = plain_path(path)
        values = [old.get((*root, *plain_path(p)), leaf) for p, leaf in current]
        nnx.update(module, jax.tree.unflatten(structure, values))


def _from_tree(treedef: Any, leaves: Sequence[Any]) -> Rebuilt:
    args, kwargs = jax.tree.unflatten(treedef, leaves)

    def current() -> Sequence[Any]:
        after, structure = jax.tree.flatten((args, kwargs))
        return after if structure == treedef else leaves

    return args, kwargs, current


@contextlib.contextmanager
def scopes(
    enter: Callable[[str], contextlib.AbstractContextManager[Any]] = jax.named_scope,
) -> Iterator[None]:
    """Name NNX modules in whatever is traced inside the block.

    NNX pushes no names; here each module's ``__call__`` enters a scope named by its
    place below the module that was called first. Values are not touched.

    Args:
        enter: what to enter by that name.
    """
    nnx: Any = sys.modules.get("flax.nnx")
    where = _Where(enter)
    with contextlib.ExitStack() as stack:
        for cls in _classes(nnx.Module) if nnx is not None else ():
            call = vars(cls).get("__call__")
            if call is not None and not hasattr(call, _MARK):
                stack.enter_context(_scoped(cls, where))
        yield


def _classes(base: type) -> set[type]:
    """Return every class below `base`."""
    found: set[type] = set()
    queue = [base]
    while queue:
        cls: type
        for cls in queue.pop().__subclasses__():
            if cls not in found:
                found.add(cls)
                queue.append(cls)
    return found


class _Where:
    """The module being called, and where the modules below the first one stand."""

    def __init__(
        self, enter: Callable[[str], contextlib.AbstractContextManager[Any]]
    ) -> None:
        self._enter = enter
        self.places: dict[int, tuple[Any, ...]] = {}
        self.current: tuple[Any, ...] = ()

    @contextlib.contextmanager
    def inside(self, module: Any) -> Iterator[None]:
        before = self.places, self.current
        if id(module) in self.places:
            place = self.places[id(module)]
            depth = len(self.current)
            relative = place[depth:] if place[:depth] == self.current else place
            name = ".".join(map(str, relative)) or type(module).__name__
        else:
            nnx: Any = sys.modules["flax.nnx"]
            self.places = {id(m): tuple(p) for p, m in nnx.iter_modules(module)}
            place, name = (), type(module).__name__
        self.current = place
        try:
            with self._enter(name):
                yield
        finally:
            self.places, self.current = before


@contextlib.contextmanager
def _scoped(cls: Any, where: _Where) -> Iterator[None]:
    original = vars(cls)["__call__"]

    @functools.wraps(original)
    def named(self: Any, *args: Any, **kwargs: Any) -> Any:
        with where.inside(self):
            return original(self, *args, **kwargs)

    setattr(named, _MARK, True)
    cls.__call__ = named
    try:
        yield
    finally:
        cls.__call__ = original
