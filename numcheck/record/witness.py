# SPDX-License-Identifier: Apache-2.0
"""Tensors of a failing step, kept as safetensors.

safetensors' NumPy side cannot read back float8 and smaller dtypes, so an array of a
dtype NumPy itself does not know is stored as raw bytes beside its dtype and shape.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.errors import RunFolderError
from numcheck.record.damage import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

__all__ = ["load_tensors", "save_tensors"]

_RAW = "numcheck.raw"


def save_tensors(folder: Path, name: str, tensors: Mapping[str, Any]) -> Path:
    """Write arrays to ``FOLDER/NAME.safetensors`` and return that path."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}.safetensors"
    raw: dict[str, tuple[str, list[int]]] = {}
    stored: dict[str, npt.NDArray[Any]] = {}
    for key, tensor in tensors.items():
        array = np.asarray(tensor)
        if array.dtype.isbuiltin != 1:  # registered with NumPy by somebody else
            raw[key] = (array.dtype.name, list(array.shape))
            array = np.frombuffer(array.tobytes(), np.uint8)
        stored[key] = np.ascontiguousarray(array)
    save_file(stored, path, metadata={_RAW: json.dumps(raw)})
    return path


def load_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of a file that `save_tensors` wrote.

    Raises:
        RunFolderError: the file is not readable as safetensors.
    """
    import ml_dtypes
    from safetensors import SafetensorError, safe_open

    unreadable: tuple[type[Exception], ...] = (SafetensorError, *UNREADABLE)
    try:
        with safe_open(path, framework="numpy") as file:
            raw = json.loads((file.metadata() or {}).get(_RAW, "{}"))
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
        for key, (dtype, shape) in raw.items():
            kind = np.dtype(getattr(ml_dtypes, dtype))
            arrays[key] = np.frombuffer(arrays[key].tobytes(), kind).reshape(shape)
    except unreadable as error:
        msg = f"{path} cannot be read as safetensors: {error}"
        raise RunFolderError(msg) from error
    return arrays
