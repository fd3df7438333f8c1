# SPDX-License-Identifier: Apache-2.0
"""Whatever a file of arrays holds, it is read or named as damaged."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from numcheck.calculator._files import arrays_in
from numcheck.errors import DumpError

if TYPE_CHECKING:
    from pathlib import Path

ENDINGS = ("npy", "npz", "stored.npz", "safetensors")
OFTEN = settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Returns a file of each kind."""
    home = tmp_path_factory.mktemp("whole")
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(home / "x.npy", values)
    np.savez_compressed(home / "x.npz", a=values, b=values[0])
    np.savez(home / "x.stored.npz", a=values, b=values[0])
    save_file({"a": values, "b": values[0]}, home / "x.safetensors")
    return {ending: (home / f"x.{ending}").read_bytes() for ending in ENDINGS}


def read(home: Path, ending: str, data: bytes) -> None:
    path = home / f"x.{ending}"
    path.write_bytes(data)
    with contextlib.suppress(DumpError):
        for _, array in arrays_in(path):
            np.asarray(array).sum()


@pytest.mark.parametrize("ending", ENDINGS)
@OFTEN
@given(data=st.data())
def test_a_file_damaged_anywhere_is_read_or_named(
    ending: str, data: st.DataObject, whole: dict[str, bytes], tmp_path: Path
) -> None:
    held = bytearray(whole[ending])
    for _ in range(data.draw(st.integers(1, 3))):
        held[data.draw(st.integers(0, min(300, len(held)) - 1))] ^= data.draw(
            st.sampled_from([1, 4, 16, 64, 128])
        )
    read(tmp_path, ending, bytes(held[: data.draw(st.integers(0, len(held)))]))
    read(tmp_path, ending, bytes(held))


HEADERS = {
    "open brackets": b"{'descr': '<f4', 'fortran_order': False, 'shape': ((((40, ",
    "a size below zero": b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }",
    "a huge size": b"{'descr': '<f4', 'fortran_order': False, 'shape': (1" + b"0" * 30
    + b",), }",
    "no dtype": b"{'descr': '(', 'fortran_order': False, 'shape': (4,), }",
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_header_that_lies_is_named(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "x.npy"
    padded = header.ljust(117) + b"\n"
    size = len(padded).to_bytes(2, "little")
    path.write_bytes(b"\x93NUMPY\x01\x00" + size + padded + bytes(160))
    with pytest.raises(DumpError, match=r"x\.npy"):
        list(arrays_in(path))
