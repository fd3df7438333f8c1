# SPDX-License-Identifier: Apache-2.0
"""How much two results may differ before it means something."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from numcheck.formats._format import Format

__all__ = ["Convention", "Tolerance", "tolerance_for"]

Convention = Literal["torch", "jax", "msprobe"]


@dataclasses.dataclass(frozen=True, slots=True)
class Tolerance:
    """Accept |a - b| ≤ atol + rtol·|a|, with a the reference."""

    rtol: float
    atol: float


# The defaults of torch.testing.assert_close, of jax's test utilities and of msprobe.
_TABLES: Final[dict[Convention, dict[str, Tolerance]]] = {
    "torch": {
        "float16": Tolerance(1e-3, 1e-5),
        "bfloat16": Tolerance(1.6e-2, 1e-5),
        "float32": Tolerance(1.3e-6, 1e-5),
        "float64": Tolerance(1e-7, 1e-7),
    },
    "jax": {
        "float16": Tolerance(1e-3, 1e-3),
        "bfloat16": Tolerance(1e-2, 1e-2),
        "float32": Tolerance(1e-6, 1e-6),
    },
    "msprobe": {
        "float16": Tolerance(2.0**-10, 0.0),
        "bfloat16": Tolerance(2.0**-8, 0.0),
        "float32": Tolerance(2.0**-20, 0.0),
    },
}


def tolerance_for(fmt: Format, convention: Convention = "torch") -> Tolerance:
    """Return the tolerance that a convention uses for a format.

    A format that it does not name gets one unit in the last place: rtol = eps,
    atol = smallest_subnormal.

    Args:
        fmt: the scalar format of the less precise result.
        convention: ``torch`` (`torch.testing.assert_close`), ``jax`` (its test
            utilities) or ``msprobe``.

    Returns:
        Both tolerances, without a unit.

    Example:
        >>> from numcheck.formats import get
        >>> tolerance_for(get("bf16")).rtol
        0.016
    """
    known = _TABLES[convention].get(fmt.name)
    return known or Tolerance(fmt.eps, fmt.smallest_subnormal)
