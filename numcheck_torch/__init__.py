# SPDX-License-Identifier: Apache-2.0
"""The PyTorch adapter of numcheck. Every name loads its module on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numcheck_torch.instrumentation import instrument
    from numcheck_torch.monitor import TorchMonitor
    from numcheck_torch.numerics_check import check_numerics
    from numcheck_torch.profiling import profiler_ranges
    from numcheck_torch.simulation import simulate
    from numcheck_torch.statistics import summarize

_HOME = {
    "TorchMonitor": "numcheck_torch.monitor",
    "check_numerics": "numcheck_torch.numerics_check",
    "instrument": "numcheck_torch.instrumentation",
    "profiler_ranges": "numcheck_torch.profiling",
    "simulate": "numcheck_torch.simulation",
    "summarize": "numcheck_torch.statistics",
}

__all__ = [
    "TorchMonitor",
    "check_numerics",
    "instrument",
    "profiler_ranges",
    "simulate",
    "summarize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'numcheck_torch' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
