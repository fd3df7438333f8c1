# SPDX-License-Identifier: Apache-2.0
"""What the trace says of an equation's output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from numcheck.record.site import Site
from numcheck_jax.families import family_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck.record.site import Effect, Family
    from numcheck_jax.interpreter.cell import Cell, Frame

    NonFinite = Literal["nan", "+inf", "-inf"]

__all__ = ["derived_site", "equation_site", "format_of"]


def equation_site(
    eqn: JaxprEqn, output: int, operands: Sequence[Cell], frame: Frame, effect: Effect
) -> Site:
    """Return the site of one output of an equation."""
    aval: Any = eqn.outvars[output].aval
    literals, detail = _constants(operands)
    label = eqn.params.get("name")  # of a check by hand, a checkpoint, a jitted call
    named = (("name", label),) if isinstance(label, str) else ()
    return Site(
        index=0,
        op=eqn.primitive.name,
        phase="forward",
        effect=effect,
        output=output,
        dtype=format_of(aval.dtype),
        shape=tuple(aval.shape),
        scope=frame.place.scope,
        source=frame.line,
        literals=literals,
        iteration=frame.iteration,
        detail=(*named, *detail),
        family=family_of(eqn.primitive.name),
    )


def derived_site(
    op: str,
    family: Family,
    operands: Sequence[Cell],
    value: Any,
    frame: Frame,
    output: int,
) -> Site:
    """Return the site of a value that a loop moves: an element, a stack, a lane."""
    return Site(
        index=0,
        op=op,
        phase="forward",
        effect="move",
        output=output,
        dtype=format_of(value.dtype),
        shape=tuple(value.shape),
        scope=frame.place.scope,
        source=frame.line,
        literals=_constants(operands)[0],
        iteration=frame.iteration,
        family=family,
    )


def format_of(dtype: Any) -> str:
    """Return the name of the format of a dtype's numbers.

    Example:
        >>> import numpy as np
        >>> format_of(np.dtype("complex64")), format_of(np.dtype("float16"))
        ('float32', 'float16')
    """
    name = str(dtype)
    return {"complex64": "float32", "complex128": "float64"}.get(name, name)


def _constants(
    operands: Sequence[Cell],
) -> tuple[tuple[NonFinite, ...], tuple[tuple[str, float], ...]]:
    """Return the non-finite constants among the operands, and the finite ones."""
    literals: list[NonFinite] = []
    detail: list[tuple[str, float]] = []
    for i, cell in enumerate(operands):
        if cell.node is not None or np.ndim(cell.value):
            continue
        try:
            number = float(cell.value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            detail.append((f"operand{i}", number))
        elif math.isnan(number):
            literals.append("nan")
        else:
            literals.append("+inf" if number > 0 else "-inf")
    return tuple(literals), tuple(detail)
