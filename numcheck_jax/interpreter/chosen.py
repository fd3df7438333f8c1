# SPDX-License-Identifier: Apache-2.0
"""From which of its cases a selection took its NaN and Inf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck_jax.interpreter.cell import Cell
    from numcheck_jax.interpreter.graph import Graph

__all__ = ["spared"]


def spared(operands: Sequence[Cell], graph: Graph) -> frozenset[int]:
    """Return the bad cases of a `select_n` of which nothing bad was selected.

    Args:
        operands: what selects, then the cases, on concrete values.
        graph: where their nodes stand.
    """
    which, *cases = operands
    bad = [
        (number, cell.node, cell.value)
        for number, cell in enumerate(cases)
        if cell.node is not None and graph.nodes[cell.node].is_bad
    ]
    chosen = np.asarray(which.value).astype(np.int64)
    taken = {node for number, node, value in bad if _is_taken(chosen == number, value)}
    return frozenset(node for _, node, _ in bad) - taken


def _is_taken(where: Any, value: Any) -> bool:
    return bool(np.any(where & ~np.isfinite(np.asarray(value))))
