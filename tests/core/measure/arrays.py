# SPDX-License-Identifier: Apache-2.0
"""Arrays for measuring, and a plain second way to measure them."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

DTYPES: dict[str, Any] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def mixed(dtype: Any, count: int, seed: int = 0) -> np.ndarray:
    """Returns numbers of many magnitudes with zeros, subnormals, NaN and Inf."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(count) * np.exp2(rng.integers(-140, 100, count))
    x[:: max(1, count // 100)] = 0
    x[1::997] *= 1e-5
    with np.errstate(all="ignore"):
        y = x.astype(dtype)
        special = np.array([np.nan, np.inf, -np.inf, -0.0]).astype(dtype)
    y[2:6] = special[: y[2:6].size]
    return y


def measured(x: np.ndarray, smallest_normal: float) -> dict[str, Any]:
    """Returns the fields of a Summary by the obvious numpy expression for each."""
    values = x.astype(np.float64).ravel()
    finite = values[np.isfinite(values)]
    size = np.abs(finite)
    nonzero = size[size > 0]
    exponents, counts = np.unique(np.frexp(nonzero)[1] - 1, return_counts=True)
    return {
        "n": values.size,
        "nan": int(np.isnan(values).sum()),
        "pos_inf": int((values == np.inf).sum()),
        "neg_inf": int((values == -np.inf).sum()),
        "zero": int((finite == 0).sum()),
        "subnormal": int((nonzero < smallest_normal).sum()),
        "low": float(values.min()) if values.size else None,
        "high": float(values.max()) if values.size else None,
        "amax": float(size.max()) if size.size else None,
        "amin": float(nonzero.min()) if nonzero.size else None,
        "total": math.fsum(finite),
        "total_sq": math.fsum(finite**2),
        "exponents": dict(zip(exponents.tolist(), counts.tolist(), strict=True)),
    }
