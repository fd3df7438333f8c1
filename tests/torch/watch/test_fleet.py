# SPDX-License-Identifier: Apache-2.0
"""Which optimizers are the watched module's, and which another one's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from numcheck_torch.optimizers import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator


class Counted(nn.Linear):
    """Counts how often its parameters are asked for."""

    asked = 0

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        self.asked += 1
        return super().parameters(recurse)


def test_an_optimizer_of_another_model_is_seldom_compared() -> None:
    fleet, model = Fleet(), Counted(2, 1)
    other = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
    assert not any(fleet.takes(other, model) for _ in range(60))
    assert model.asked == 1


def test_an_optimizer_that_is_given_the_module_s_parameters_later_is_taken() -> None:
    fleet, model = Fleet(), nn.Linear(2, 1)
    other = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
    assert not fleet.takes(other, model)
    other.add_param_group({"params": model.parameters()})
    assert fleet.takes(other, model)


def test_an_optimizer_whose_parameters_become_the_module_s_is_taken() -> None:
    fleet, model, head = Fleet(), nn.Sequential(nn.Linear(2, 1)), nn.Linear(1, 1)
    other = torch.optim.SGD(head.parameters(), lr=0.1)
    assert not fleet.takes(other, model)
    model.append(head)
    assert any(fleet.takes(other, model) for _ in range(100))
