# SPDX-License-Identifier: Apache-2.0
"""The tape of a run on concrete values: each is measured as soon as it exists."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck_jax.interpreter.chosen import spared
from numcheck_jax.interpreter.stretches import stretches
from numcheck_jax.interpreter.tape import Tape
from numcheck_jax.statistics import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jax.extend.core import Jaxpr, JaxprEqn

    from numcheck_jax.interpreter.cell import Cell, Frame
    from numcheck_jax.interpreter.graph import Node
    from numcheck_jax.interpreter.lifting import Lifting
    from numcheck_jax.interpreter.stretches import Made
    from numcheck_jax.interpreter.tape import Rule

__all__ = ["ConcreteTape", "NonFiniteFoundError", "departure"]


class NonFiniteFoundError(Exception):
    """The first birth was recorded and the caller wanted no more."""


class ConcreteTape(Tape):
    """Measures every value in full, and how far it departs from the shadow."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        lifting: Lifting | None = None,
        *,
        early_stop: bool = False,
        compares: bool = True,
    ) -> None:
        """Start an empty tape.

        Args:
            rules: rule of each primitive that needs one of its own.
            lifting: how the shadow's dtypes are chosen; None runs without a shadow.
            early_stop: raise `NonFiniteFoundError` after the first birth.
            compares: measure how far values depart from the shadow, where one runs.
        """
        super().__init__(rules, lifting)
        self.early_stop = early_stop
        self.compares = compares
        self.jits = 0
        self._made: deque[Made] = deque()

    def foresee(self, jaxpr: Jaxpr, place: int, read: Callable[[Any], Cell]) -> None:
        """Run a stretch of a jitted program ahead, where one begins."""
        if self._made or not self.jits:
            return
        stretch = stretches(jaxpr, self.rules).get(place)
        if stretch is not None:
            target = None if self.lifting is None else self.lifting.to
            self._made.extend(stretch([read(v) for v in stretch.inputs], target))

    def values_of(
        self, eqn: JaxprEqn, operands: Sequence[Cell]
    ) -> tuple[list[Any], list[Any] | None]:
        """Return what was computed ahead, or compute it."""
        return self._made.popleft() if self._made else super().values_of(eqn, operands)

    def note(
        self,
        eqn: JaxprEqn,
        operands: Sequence[Cell],
        values: Sequence[Any],
        frame: Frame,
        shadows: Sequence[Any] | None = None,
    ) -> list[Cell]:
        """Note the outputs, and of a selection from where it took what is bad."""
        cells = super().note(eqn, operands, values, frame, shadows)
        node = self.graph.nodes[-1]
        if eqn.primitive.name == "select_n" and node.is_bad:
            node.spared = spared(operands, self.graph)
        return cells

    def measure(
        self, index: int, value: Any, shadow: Any, eqn: JaxprEqn | None = None
    ) -> None:
        """Measure a value and its departure from the shadow."""
        node = self.graph.nodes[index]
        node.summary = summarize(value)
        if self.lifting is not None and self.compares:
            node.departure = 0.0 if shadow is None else departure(value, shadow)
        if self.early_stop and self._is_birth(node):
            raise NonFiniteFoundError

    def _is_birth(self, node: Node) -> bool:
        return (
            node.is_bad
            and bool(node.parents)
            and not (node.site is not None and node.site.literals)
            and not any(self.graph.nodes[p].is_bad for p in node.parents)
        )


def departure(value: Any, shadow: Any) -> float:
    """Return the relative L2 error of a value against its shadow.

    0 when they are equal, Inf when an element is finite in one of them only, or when
    the shadow is zero and the value is not.

    Example:
        >>> import numpy as np
        >>> departure(np.float32([3.0, 4.5]), np.float32([3.0, 4.0]))
        0.1
    """
    v, s = (np.asarray(x).astype(np.float64) for x in (value, shadow))
    finite = np.isfinite(v)
    if not np.array_equal(finite, np.isfinite(s)):
        return math.inf
    v, s = np.where(finite, v, 0.0), np.where(finite, s, 0.0)
    error, size = float(np.linalg.norm(v - s)), float(np.linalg.norm(s))
    if error == 0:
        return 0.0
    return error / size if size else math.inf
