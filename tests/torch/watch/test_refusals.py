# SPDX-License-Identifier: Apache-2.0
"""What cannot be watched is refused, with what to do instead."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import numcheck
import numcheck_torch
from numcheck.errors import ArgumentError, ArgumentTypeError


def test_an_optimizer_of_another_model_is_refused() -> None:
    mine, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    with pytest.raises(ArgumentError, match="holds no parameter of the model"):
        numcheck_torch.instrument(mine, optimizer)


def test_a_loss_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="loss_fn"):
        numcheck_torch.instrument(torch.nn.Linear(2, 1), loss_fn=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "instrument",
    [numcheck.instrument, numcheck_torch.instrument],
    ids=["found", "named"],
)
def test_a_misspelt_option_is_refused_with_the_one_that_was_meant(
    instrument: Any,
) -> None:
    with pytest.raises(ArgumentError, match="'levle'; did you mean 'level'"):
        instrument(torch.nn.Linear(2, 1), levle="trace")


@pytest.mark.parametrize(
    "instrument",
    [numcheck.instrument, numcheck_torch.instrument],
    ids=["found", "named"],
)
def test_a_class_is_refused_in_place_of_an_object(instrument: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="the class Linear"):
        instrument(torch.nn.Linear)
