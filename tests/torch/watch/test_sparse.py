# SPDX-License-Identifier: Apache-2.0
"""Steps that are given sparse tensors, as graph networks are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import numcheck_torch
from numcheck.errors import NonFiniteError


class Neighbours(nn.Module):
    """Adds up what the neighbours of each node hold."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(graph, self.lin(x))


def test_sparse_batches_and_targets_are_followed_like_dense_ones() -> None:
    model = numcheck_torch.instrument(Neighbours(), audit_first=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        out = model(torch.ones(2, 3), torch.eye(2).to_sparse())
        target = torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 3))
        optimizer.zero_grad()
        (out - target).square().mean().backward()
        optimizer.step()
    out = model(torch.ones(2, 3), torch.eye(2).to_sparse())
    (out.sum() / (out - out).sum()).backward()
    with pytest.raises(NonFiniteError):
        optimizer.step()
    model.numcheck.close()
    (found,) = model.numcheck.findings
    assert (found.id, found.step, found.site.op) == ("N303", 2, "aten.div.Tensor")
    assert [e for e in model.numcheck.events if e.name == "fault"] == []
