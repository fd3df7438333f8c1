# SPDX-License-Identifier: Apache-2.0
"""The JAX adapter of numcheck.

Every name loads its module, and JAX, on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numcheck_jax.instrumentation import instrument
    from numcheck_jax.numerics_check import check_numerics
    from numcheck_jax.profiling import profiler_ranges
    from numcheck_jax.simulation import simulate

_HOME = {
    "check_numerics": "numcheck_jax.numerics_check",
    "instrument": "numcheck_jax.instrumentation",
    "profiler_ranges": "numcheck_jax.profiling",
    "simulate": "numcheck_jax.simulation",
}

__all__ = ["check_numerics", "instrument", "profiler_ranges", "simulate"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        msg = f"module 'numcheck_jax' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
