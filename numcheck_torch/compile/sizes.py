# SPDX-License-Identifier: Apache-2.0
"""Sizes in a graph compiled for many shapes, and what they are in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Sizes", "expression_of", "sizes_given"]

Shape = tuple[int, ...]
Given = tuple[int, int | None, Any]
"""Position of an argument, a dimension of it or None, and the size it says."""


def expression_of(size: Any) -> Any:
    """Return a size as a number, or as the symbolic expression it stands for.

    Example:
        >>> expression_of(3)
        3
    """
    return size.node.expr if isinstance(size, torch.SymInt) else int(size)


def sizes_given(values: Sequence[Any]) -> list[Given]:
    """Return the symbolic sizes that a graph's arguments say, each once.

    Args:
        values: fake values of the arguments; those that are sizes go first.

    Example:
        >>> sizes_given([torch.ones(3), 4])
        []
    """
    found: dict[Any, Given] = {}
    for position, value in enumerate(values):
        if isinstance(value, torch.SymInt):
            size = expression_of(value)
            found.setdefault(size, (position, None, size))
    for position, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            for dim, size in enumerate(map(expression_of, value.shape)):
                if not isinstance(size, int):
                    found.setdefault(size, (position, dim, size))
    return list(found.values())


class Sizes:
    """The shapes of a graph's tensors as functions of its symbolic arguments.

    Args:
        arguments: see `sizes_given`.
        shapes: numbers and expressions, one tuple for each tensor.
    """

    def __init__(
        self, arguments: Sequence[Given], shapes: Sequence[tuple[Any, ...]]
    ) -> None:
        self._arguments = tuple(arguments)
        self._shapes = tuple(shapes)
        self._known: dict[tuple[int, ...], list[Shape]] = {}
        self.is_dynamic = any(not _is_fixed(shape) for shape in self._shapes)

    def of(self, args: Sequence[Any]) -> list[Shape]:
        """Return the shapes in a run with the given arguments."""
        values = tuple(
            int(args[at] if dim is None else args[at].shape[dim])
            for at, dim, _ in self._arguments
        )
        found = self._known.get(values)
        if found is None:
            bound = {
                symbol: value
                for (_, _, symbol), value in zip(self._arguments, values, strict=True)
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
