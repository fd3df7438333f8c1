# SPDX-License-Identifier: Apache-2.0
"""What a call hands back: its output's leaves, and arguments it changed in place."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax

from numcheck_jax.naming import leaf_paths, result_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numcheck_jax.capture import Call

__all__ = ["Key", "Result", "result_of"]


class Key(NamedTuple):
    """Where a value stands in what the user gets.

    Attributes:
        kind: ``out`` a leaf of the returned tree, ``after`` an argument's leaf that
            was replaced in place.
        position: place among the leaves of the output, or of the arguments.
    """

    kind: Literal["out", "after"]
    position: int


@dataclasses.dataclass(frozen=True)
class Result:
    """The values of one call, real or traced.

    Attributes:
        leaves: leaves of the returned tree.
        treedef: its structure.
        after: new values of argument leaves that were replaced, by position.
    """

    leaves: tuple[Any, ...]
    treedef: Any
    after: Mapping[int, Any]

    def items(self) -> Iterator[tuple[Key, Any]]:
        """Yield every value with its place."""
        for i, leaf in enumerate(self.leaves):
            yield Key("out", i), leaf
        for i, leaf in self.after.items():
            yield Key("after", i), leaf

    def find(self, pick: Callable[[Any], Any]) -> Key | None:
        """Return the place of the leaf that a user's function picks, if it is one."""
        chosen = pick(jax.tree.unflatten(self.treedef, self.leaves))
        matches = (i for i, leaf in enumerate(self.leaves) if leaf is chosen)
        found = next(matches, None)
        return None if found is None else Key("out", found)

    def without_values(self) -> Result:
        """Return the same places, holding nothing."""
        nothing = (None,) * len(self.leaves)
        kept = Result(nothing, self.treedef, dict.fromkeys(self.after))
        kept.__dict__["paths"] = self.paths  # which cannot be asked for afterwards
        return kept

    @functools.cached_property
    def paths(self) -> tuple[tuple[Any, ...], ...]:
        """The pytree path of each leaf of the returned tree."""
        return leaf_paths(self.treedef, self.leaves)

    def name(self, key: Key, call: Call) -> str:
        """Return a value's name: its path in the output, or its argument's name."""
        if key.kind == "after":
            return call.names[key.position]
        return result_name(self.paths[key.position])


def result_of(out: Any, before: Sequence[Any], after: Sequence[Any]) -> Result:
    """Return the values of a call, given its argument leaves before and after."""
    leaves, treedef = jax.tree.flatten(out)
    changed: dict[int, Any] = {}
    if len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        changed = {i: new for i, (old, new) in pairs if new is not old}
    return Result(tuple(leaves), treedef, changed)
