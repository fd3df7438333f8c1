# SPDX-License-Identifier: Apache-2.0
"""Vectors made with exact rationals and checked against independent libraries."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[2] / "golden" / "formats"
LIMITS: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (FOLDER / "limits.json").read_text("utf-8")
)


@functools.cache
def vectors(name: str) -> dict[str, np.ndarray]:
    """Returns the arrays of one file by key."""
    with np.load(FOLDER / f"{name}.npz") as file:
        return dict(file)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two float arrays agree bit for bit; NaN is NaN whatever its bits."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return bool(((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))).all())
