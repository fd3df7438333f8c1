# SPDX-License-Identifier: Apache-2.0
"""Arrays in .npy, .npz and .safetensors files, mapped into memory where possible."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from numcheck.errors import DumpError
from numcheck.formats import get
from numcheck.record.damage import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from numpy.typing import NDArray

__all__ = ["arrays_in", "viewed_as"]

# The names that the safetensors format gives to dtypes.
_SAFETENSORS: Final[dict[str, Any]] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_MAX_HEADER: Final = 100_000_000
_LOCAL_HEADER: Final = struct.Struct("<26xHH")


def arrays_in(path: str | Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield (name, array) of a file; the array of an .npy file has the file's name.

    Arrays are mapped, not loaded, except compressed members of .npz files.

    Raises:
        DumpError: the file is missing, of another kind, or damaged.
    """
    path = Path(path)
    readers = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(readers)
        if not path.exists():
            raise DumpError(f"{path}: no such file")
        raise DumpError(f"{path}: expected a file that ends in one of {known}")
    try:
        yield from reader(path)
    except DumpError:
        raise
    except OSError as error:
        raise DumpError(f"{path}: cannot be read: {error.strerror or error}") from error
    except DAMAGE as error:
        raise DumpError(f"{path}: damaged or not such a file: {error}") from error


def viewed_as(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return raw bytes as numbers of a dtype that numpy files cannot name.

    Raises:
        DumpError: the dtype is unknown, or its width is not that of the items.

    Example:
        >>> raw = np.ones(2, ml_dtypes.bfloat16).view("V2")
        >>> viewed_as(raw, "bf16").astype(float).tolist()
        [1.0, 1.0]
    """
    name = get(dtype).name
    wanted = getattr(ml_dtypes, name, None) or getattr(np, name, None)
    if wanted is None:
        raise DumpError(f"no array can have the dtype {name}")
    if np.dtype(wanted).itemsize != array.dtype.itemsize:
        raise DumpError(
            f"items of {array.dtype.itemsize} bytes cannot be read as {name}, which "
            f"takes {np.dtype(wanted).itemsize}"
        )
    return array.view(wanted)


def _npy(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    with path.open("rb") as file:
        _refuse_objects(path, path.stem, _header(file)[2])
    yield path.stem, np.load(path, mmap_mode="r", allow_pickle=False)


def _npz(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type == zipfile.ZIP_STORED and member.file_size:
                yield name, _mapped_member(path, member)
                continue
            with archive.open(member) as stream:
                _refuse_objects(path, name, _header(stream)[2])
            with archive.open(member) as stream:
                yield name, np.lib.format.read_array(stream, allow_pickle=False)


def _mapped_member(path: Path, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Map a member that lies uncompressed in the archive."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        file.seek(name_length + extra_length, 1)
        shape, fortran_order, dtype = _header(file)
        _refuse_objects(path, member.filename.removesuffix(".npy"), dtype)
        return _mapped(
            path, dtype, file.tell(), shape, order="F" if fortran_order else "C"
        )


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and dtype; the file then stands at the first element."""
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    return read(file)


def _refuse_objects(path: Path, name: str, dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        msg = (
            f"{path}: {name!r} holds Python objects, which are not read, for reading "
            f"them could run code; save numbers, as by x.astype('float32')"
        )
        raise DumpError(msg)


def _safetensors(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))
        if length > _MAX_HEADER:
            raise ValueError("its header is implausibly long")
        header = json.loads(file.read(length))
    data = 8 + length
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype = np.dtype(_SAFETENSORS[entry["dtype"]])
        begin, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        if (end - begin) != int(np.prod(shape, dtype=np.int64)) * dtype.itemsize:
            raise ValueError(f"the size of {name!r} does not match its shape")
        yield name, _mapped(path, dtype, data + begin, shape)


def _mapped(
    path: Path,
    dtype: np.dtype[Any],
    offset: int,
    shape: tuple[int, ...],
    order: Any = "C",  # noqa: ANN401 - a Literal of numpy's
) -> NDArray[Any]:
    if 0 in shape:
        return np.empty(shape, dtype)
    # A plain array over the map: chunks of it are then as cheap as any view.
    mapped = np.memmap(path, dtype, "r", offset, shape or (1,), order)
    return np.asarray(mapped).reshape(shape, order=order)
