# SPDX-License-Identifier: Apache-2.0
"""numcheck: find out why a training run prints NaN.

Every name loads its module on first use, so that importing numcheck costs nothing
and loads no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numcheck.adapters import instrument, simulate
    from numcheck.diagnose import diagnose
    from numcheck.errors import NonFiniteError, NumcheckError
    from numcheck.formats import Format, decode, encode, finfo, matmul, quantize
    from numcheck.measure import (
        Summary,
        compare,
        fit,
        headroom,
        margins,
        summarize,
    )
    from numcheck.record import Trace

_HOME = {
    "Format": "numcheck.formats",
    "NonFiniteError": "numcheck.errors",
    "NumcheckError": "numcheck.errors",
    "Summary": "numcheck.measure",
    "Trace": "numcheck.record",
    "compare": "numcheck.measure",
    "decode": "numcheck.formats",
    "diagnose": "numcheck.diagnose",
    "encode": "numcheck.formats",
    "finfo": "numcheck.formats",
    "fit": "numcheck.measure",
    "headroom": "numcheck.measure",
    "instrument": "numcheck.adapters",
    "margins": "numcheck.measure",
    "matmul": "numcheck.formats",
    "quantize": "numcheck.formats",
    "simulate": "numcheck.adapters",
    "summarize": "numcheck.measure",
}

__version__ = "0.1.0"
__all__ = [
    "Format",
    "NonFiniteError",
    "NumcheckError",
    "Summary",
    "Trace",
    "compare",
    "decode",
    "diagnose",
    "encode",
    "finfo",
    "fit",
    "headroom",
    "instrument",
    "margins",
    "matmul",
    "quantize",
    "simulate",
    "summarize",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _HOME:
        msg = f"module 'numcheck' has no attribute {name!r}"
        raise AttributeError(msg)
    home = importlib.import_module(_HOME[name])
    # A package of the same name is called itself (`numcheck.callable_package`).
    value = home if home.__name__ == f"numcheck.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
