# SPDX-License-Identifier: Apache-2.0
"""Arrays of any framework as NumPy arrays, without importing a framework.

An array is what NumPy can read. A tensor that must first leave its graph or its
device says how by its own methods; one whose dtype NumPy lacks (bfloat16, float8) is
read through its bits.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["to_numpy"]


def to_numpy(value: Any) -> NDArray[Any]:  # noqa: ANN401 - arrays of any framework
    """Return an array of any framework as a NumPy array of the same dtype.

    Raises:
        TypeError, ValueError, RuntimeError: NumPy cannot read it.

    Example:
        >>> to_numpy([1.0, 2.0])
        array([1., 2.])
    """
    for step in ("detach", "cpu"):
        value = getattr(value, step, lambda v=value: v)()
    try:
        return np.asarray(value)
    except TypeError:
        name = str(getattr(value, "dtype", "")).rpartition(".")[2]
        kind = getattr(ml_dtypes, name, None)
        if kind is None or not hasattr(value, "view"):
            raise
    bits = f"int{8 * np.dtype(kind).itemsize}"
    home = sys.modules[type(value).__module__.partition(".")[0]]
    return np.asarray(value.view(getattr(home, bits))).view(kind)
