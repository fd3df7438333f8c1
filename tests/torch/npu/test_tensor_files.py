# SPDX-License-Identifier: Apache-2.0
"""The core reads what PyTorch saved, without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from numcheck.errors import DumpError
from numcheck.record.foreign.torch_file import load_tensor

if TYPE_CHECKING:
    from pathlib import Path

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64,
    torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def saved(tensor: object, to: Path) -> np.ndarray:
    torch.save(tensor, to / "t.pt")
    return load_tensor(to / "t.pt")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_dtype_come_back(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    found = saved(tensor, tmp_path)
    assert found.dtype.name == str(dtype).removeprefix("torch.")
    assert found.astype(np.float64).tolist() == tensor.double().tolist()


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.arange(12.0).reshape(3, 4).t(), id="transposed"),
        pytest.param(torch.arange(12.0)[3:9:2], id="strided slice"),
        pytest.param(torch.tensor(2.5), id="0-d"),
        pytest.param(torch.zeros(0, 3), id="empty"),
        pytest.param(torch.tensor([float("nan"), float("-inf")]), id="not finite"),
        pytest.param(torch.ones(2).expand(3, 2), id="expanded"),
        pytest.param(torch.nn.Parameter(torch.ones(2)).detach(), id="detached"),
    ],
)
def test_shapes_and_strides_come_back(tensor: torch.Tensor, tmp_path: Path) -> None:
    np.testing.assert_array_equal(saved(tensor, tmp_path), tensor.numpy())


def test_parameters_come_back(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    assert saved(parameter, tmp_path).tolist() == [1.0, 2.0]


def test_anything_but_one_tensor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="expected one tensor"):
        saved({"a": torch.ones(2)}, tmp_path)


@pytest.mark.parametrize("keep", [0, 10, 300])
def test_torn_files_are_refused(keep: int, tmp_path: Path) -> None:
    torch.save(torch.ones(100), tmp_path / "t.pt")
    whole = (tmp_path / "t.pt").read_bytes()
    (tmp_path / "t.pt").write_bytes(whole[:keep])
    with pytest.raises(DumpError):
        load_tensor(tmp_path / "t.pt")
