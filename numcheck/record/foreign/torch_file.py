# SPDX-License-Identifier: Apache-2.0
"""Tensors out of ``.pt`` files, read without the framework that wrote them.

Such a file is a zip archive: a pickle that describes tensors, and their storages as
raw bytes. The pickle may name a tensor's rebuild function and storage types, nothing
else: a file that names anything more is refused, so no code of its author runs.
"""

from __future__ import annotations

import collections
import pickle
import zipfile
from typing import TYPE_CHECKING, Any, Final

from numcheck.errors import DumpError
from numcheck.record.damage import UNREADABLE

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

__all__ = ["load_tensor"]

_DTYPES: Final = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
# Formats that no storage type exists for; their tensors name the format itself.
_NAMED: Final = frozenset(
    {"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
     "float8_e8m0fnu", "uint16", "uint32", "uint64"}
)  # fmt: skip


def load_tensor(path: Path) -> np.ndarray[Any, Any]:
    """Return the one tensor that a file holds.

    Raises:
        DumpError: the file is missing, torn, or holds something else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            (inside,) = [n for n in names if n.endswith("/data.pkl")]
            folder = inside.removesuffix("data.pkl")
            with archive.open(inside) as file:
                found = _Reader(file, archive, folder).load()
    except UNREADABLE as error:
        msg = f"{path} cannot be read as one tensor: {error}"
        raise DumpError(msg) from error
    import numpy as np

    if not isinstance(found, np.ndarray):
        msg = f"{path} holds a {type(found).__name__}; expected one tensor"
        raise DumpError(msg)
    return found


class _Reader(pickle.Unpickler):
    """An unpickler that builds arrays out of an archive's storages."""

    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: str) -> None:  # noqa: ANN401 - a zip member
        super().__init__(file)
        self._archive = archive
        self._folder = folder

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as the base class
        """Return one of the few things a tensor's pickle may name."""
        if name in _DTYPES:
            return _DTYPES[name]
        if module == "torch" and name in _NAMED:
            return name
        if name in ("_rebuild_tensor_v2", "_rebuild_tensor"):
            return _rebuilt
        if name == "_rebuild_tensor_v3":
            return _rebuilt_as
        if name == "_rebuild_parameter":
            return lambda data, *_: data
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        msg = f"it names {module}.{name}, which no plain tensor does"
        raise pickle.UnpicklingError(msg)

    def persistent_load(self, pid: Any) -> np.ndarray[Any, Any]:  # noqa: ANN401 - as the base class
        """Return a storage of the archive as a flat array."""
        import numpy as np

        _, dtype, key, *_ = pid
        raw = self._archive.read(f"{self._folder}data/{key}")
        return np.frombuffer(raw, dtype=_numpy_dtype(str(dtype)))


def _numpy_dtype(name: str) -> np.dtype[Any]:
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _rebuilt_as(
    storage: np.ndarray[Any, Any],
    offset: int,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: object,
    hooks: object,
    dtype: object,
    *_: object,
) -> np.ndarray[Any, Any]:
    """Return a tensor over untyped bytes."""
    del requires_grad, hooks
    values = storage.view(_numpy_dtype(str(dtype)))
    return _rebuilt(values, offset, shape, stride)


def _rebuilt(
    storage: np.ndarray[Any, Any],
    offset: int,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    *_: object,
) -> np.ndarray[Any, Any]:
    import numpy as np

    # Checked here, since as_strided itself would read beyond the storage.
    last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    if 0 in shape:
        return np.empty(shape, storage.dtype)
    if offset < 0 or min(stride, default=0) < 0 or last >= storage.size:
        msg = f"shape {shape} with stride {stride} leaves its storage"
        raise ValueError(msg)
    width = storage.dtype.itemsize
    steps = tuple(s * width for s in stride)
    # NumPy cannot describe ml_dtypes' types to itself, so their bits are strided.
    is_own = storage.dtype.isbuiltin == 1
    bits = storage if is_own else storage.view(f"u{width}")
    found = np.lib.stride_tricks.as_strided(bits[offset:], shape, steps)
    return found.view(storage.dtype)
