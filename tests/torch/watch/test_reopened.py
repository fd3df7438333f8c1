# SPDX-License-Identifier: Apache-2.0
"""A fused attention that breaks is opened, and the step inside is named."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as fn

from numcheck import NonFiniteError
from tests.torch.watch.loops import square, watched


class Attends(nn.Module):
    def __init__(self, size: float) -> None:
        super().__init__()
        self.project, self.size = nn.Linear(4, 4), size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.project(x)[None, None] * self.size
        return fn.scaled_dot_product_attention(q, q, q)


def broken(model: nn.Module) -> NonFiniteError:
    model, optimizer, _ = watched(model, experiments=False)
    x = torch.rand(6, 4, generator=torch.Generator().manual_seed(0)) + 1
    square(model(x)).backward()
    with pytest.raises(NonFiniteError) as caught:
        optimizer.step()
    return caught.value


def test_scores_that_overflow_are_named() -> None:
    error = broken(Attends(1e25))
    (finding,) = error.findings
    assert finding.site.family == "attention"
    told = {e.key: dict(e.fields) for e in finding.evidence}
    assert told["attention_opened"] == {"op": "aten.bmm.default"}
    shown = " ".join(str(error).replace("|", " ").split())
    assert "opened into plain operators" in shown


def test_another_operator_is_left_alone() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sqrt(self.layer(x) - 1e6)

    (finding,) = broken(Root()).findings
    assert not any(e.key.startswith("attention") for e in finding.evidence)
