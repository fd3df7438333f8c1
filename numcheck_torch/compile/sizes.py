# SPDX-License-Identifier: Apache-2.0
"""Sizes in a graph compiled for many shapes, and what they are in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Sizes", "expression_of"]

Shape = tuple[int, ...]


def expression_of(size: Any) -> Any:
    """Return a size as a number, or as the symbolic expression it stands for.

    Example:
        >>> expression_of(3)
        3
    """
    return size.node.expr if isinstance(size, torch.SymInt) else int(size)


class Sizes:
    """The shapes of a graph's tensors as functions of its symbolic arguments.

    Args:
        arguments: position of each symbolic argument, and its symbol.
        shapes: numbers and expressions, one tuple for each tensor.
    """

    def __init__(
        self, arguments: Sequence[tuple[int, Any]], shapes: Sequence[tuple[Any, ...]]
    ) -> None:
        self._arguments = tuple(arguments)
        self._shapes = tuple(shapes)
        self._known: dict[tuple[int, ...], list[Shape]] = {}
        self.is_dynamic = any(not _is_fixed(shape) for shape in self._shapes)

    def of(self, args: Sequence[Any]) -> list[Shape]:
        """Return the shapes in a run with the given arguments."""
        values = tuple(int(args[position]) for position, _ in self._arguments)
        found = self._known.get(values)
        if found is None:
            bound = {
                symbol: value
                for (_, symbol), value in zip(self._arguments, values, strict=True)
            }
            found = [_evaluated(shape, bound) for shape in self._shapes]
            self._known[values] = found
        return found


def _is_fixed(shape: tuple[Any, ...]) -> bool:
    return all(isinstance(size, int) for size in shape)


def _evaluated(shape: tuple[Any, ...], bound: dict[Any, int]) -> Shape:
    return tuple(
        size if isinstance(size, int) else int(size.xreplace(bound)) for size in shape
    )
