# SPDX-License-Identifier: Apache-2.0
"""The arrays inside a value, by path, as NumPy arrays.

Frameworks are not imported: an array is what NumPy can read, through ``__array__``
or DLPack. A tensor that must first leave its graph or device says how by its own
methods.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from numcheck.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

__all__ = ["array_of", "arrays"]


def arrays(value: object, path: str = "") -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield (path, array) for every array in `value`, depth first.

    Containers are mappings, sequences and dataclasses. Integer and boolean arrays are
    yielded too; None and text are passed over.
    """
    if value is None or isinstance(value, str | bytes):
        return
    if isinstance(value, dict):
        for key, held in value.items():
            yield from arrays(held, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for position, held in enumerate(value):
            yield from arrays(held, f"{path}[{position}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from arrays(getattr(value, field.name), f"{path}.{field.name}")
    else:
        yield path, array_of(value)


def array_of(value: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - arrays of any framework
    """Return a framework's array as a NumPy array, without changing its dtype.

    Raises:
        ArgumentTypeError: `value` is no array.
    """
    for step in ("detach", "cpu"):
        value = getattr(value, step, lambda v=value: v)()
    try:
        array = np.asarray(value)
    except TypeError:
        array = _by_bits(value)
    if array.dtype.kind in "OSUV" and array.dtype.isbuiltin == 1:
        msg = f"expected arrays of numbers, got {type(value).__name__}"
        raise ArgumentTypeError(msg)
    return array


def _by_bits(value: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - arrays of any framework
    """Read an array whose dtype NumPy lacks (bfloat16, float8) through its bits."""
    name = str(getattr(value, "dtype", "")).rpartition(".")[2]
    kind = getattr(ml_dtypes, name, None)
    if kind is None or not hasattr(value, "view"):
        msg = f"expected arrays of numbers, got {type(value).__name__}"
        raise ArgumentTypeError(msg)
    bits = f"int{8 * np.dtype(kind).itemsize}"
    home = sys.modules[type(value).__module__.partition(".")[0]]
    return np.asarray(value.view(getattr(home, bits))).view(kind)
