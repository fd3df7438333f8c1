# SPDX-License-Identifier: Apache-2.0
"""A finding whose cause is the data names row and column of the batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import numcheck_torch
from numcheck import NonFiniteError


def evidence(x: Any, y: Any) -> list[tuple[str, Any]]:
    """Train one step; return what the finding says about the batch."""
    torch.manual_seed(0)
    model = numcheck_torch.instrument(torch.nn.Linear(x.shape[1], 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    (model(x) - y).square().mean().backward()
    with pytest.raises(NonFiniteError) as caught:
        optimizer.step()
    model.numcheck.close()
    return [
        (e.key, e.fields["place"])
        for e in caught.value.finding.evidence
        if e.key.startswith("data_")
    ]


def test_nan_in_the_batch_is_told_with_row_and_column() -> None:
    x = torch.randn(8, 5)
    x[6, 3] = float("nan")
    assert evidence(x, torch.zeros(8, 1)) == [("data_N011", "input:input[6, 3]")]


def test_nan_in_a_target_is_told_with_its_row() -> None:
    y = torch.zeros(8, 1)
    y[5] = float("nan")
    assert evidence(torch.randn(8, 5), y) == [("data_N011", "input:target[5, 0]")]


def test_an_outlier_is_told_with_row_and_column() -> None:
    torch.manual_seed(1)
    x = torch.randn(16, 5)
    x[9, 2] = 3e25
    assert evidence(x, torch.zeros(16, 1)) == [("data_N014", "input:input[9, 2]")]
