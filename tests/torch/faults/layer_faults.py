# SPDX-License-Identifier: Apache-2.0
"""Layers, losses and moves of values that make a NaN or an Inf in the forward."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import nn
from torch.nn import functional as fn

from tests.torch.faults.fault import HUGE, WIDTH, Fault, faults_of

M = TypeVar("M", bound=nn.Module)


class Linear(Fault):
    op = "aten.addmm."

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(WIDTH))
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        scale = 1 + HUGE * a
        x, w = h * scale, self.weight * scale
        return fn.linear(x, w, self.bias)  # fault


class Matmul(Fault):
    op = "aten.mm."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h * (1 + HUGE * a)
        return (large @ large.T).sum(-1, keepdim=True) + h  # fault


class BatchedMatmul(Fault):
    op = "aten.bmm."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = (h * (1 + HUGE * a)).unsqueeze(-1)
        return torch.bmm(large, large.transpose(1, 2)).sum(-1)  # fault


class Einsum(Fault):
    op = "aten.bmm."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h * (1 + HUGE * a)
        return torch.einsum("bi,ji->bj", large, large[:1]) + h  # fault


class Convolution(Fault):
    op = "aten.convolution."

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 1, 3))

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        scale = 1 + HUGE * a
        x, w = (h * scale).unsqueeze(1), self.weight * scale
        return fn.conv1d(x, w, padding=1).squeeze(1)  # fault


class LayerNorm(Fault):
    op = "aten.native_layer_norm."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        flat = h * (1 - a)
        return fn.layer_norm(flat, (WIDTH,), eps=0.0)  # fault


class BatchNorm(Fault):
    op = "batch_norm"

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        spread = torch.ones(WIDTH) - 2 * a
        return fn.batch_norm(h, torch.zeros(WIDTH), spread)  # fault


class GroupNorm(Fault):
    op = "aten.native_group_norm."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        flat = (h * (1 - a)).unsqueeze(-1)
        return fn.group_norm(flat, 2, eps=0.0).squeeze(-1)  # fault


class RmsNorm(Fault):
    op = "aten."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        flat = h * (1 - a)
        return fn.rms_norm(flat, (WIDTH,), eps=0.0)  # fault


class Softmax(Fault):
    op = "aten._softmax."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        masked = h.masked_fill(a > 0, -math.inf)
        return masked.softmax(-1)  # fault


class LogSoftmax(Fault):
    op = "aten._log_softmax."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        masked = h.masked_fill(a > 0, -math.inf)
        return masked.log_softmax(-1)  # fault


class CrossEntropy(Fault):
    op = "aten.nll_loss_forward."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        none = torch.where(a > 0, -100, 0).expand(len(h))
        return h + fn.cross_entropy(h, none)  # fault


class Attention(Fault):
    op = "scaled_dot_product"

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        q = (h * (1 + HUGE * a)).view(1, 2, len(h), WIDTH // 2)
        seen = fn.scaled_dot_product_attention(q, q, q)  # fault
        return seen.reshape(h.shape)


class ScatterAdd(Fault):
    op = "aten.scatter_add."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() * 0.01 + 2e38 * a
        same = torch.zeros(h.shape, dtype=torch.long)
        return torch.scatter_add(h, -1, same, large)  # fault


class IndexAdd(Fault):
    op = "aten.index_add."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() * 0.01 + 2e38 * a
        same = torch.zeros(len(h), dtype=torch.long)
        return h.index_add(0, same, large)  # fault


class IndexPut(Fault):
    op = "aten.index_put"

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() * 0.01 + 2e38 * a
        same = (torch.zeros(len(h), dtype=torch.long),)
        return h.index_put(same, large, accumulate=True)  # fault


class CastToHalf(Fault):
    op = "aten._to_copy."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h * (1 + 1e7 * a)
        low = large.half()  # fault
        return low.float()


class Gru(Fault):
    """What comes in overflows upwards, what was kept downwards: Inf - Inf."""

    op = "aten.addmm."

    def __init__(self) -> None:
        super().__init__()
        self.cell = with_opposed_weights(nn.GRU(WIDTH, WIDTH))

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() + 3e38 * a
        return self.cell(large, large[:1])[0]  # fault


class LstmCell(Fault):
    op = "aten.addmm."

    def __init__(self) -> None:
        super().__init__()
        self.cell = with_opposed_weights(nn.LSTMCell(WIDTH, WIDTH))

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() + 3e38 * a
        kept, _ = self.cell(large, (large, large))  # fault
        return h + kept


def with_opposed_weights(cell: M) -> M:
    with torch.no_grad():
        for name, weight in cell.named_parameters():
            weight.copy_(weight.abs() * (1 if "ih" in name else -1))
    return cell


class MeanSquaredError(Fault):
    op = "aten.mse_loss."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h * (1 + HUGE * a)
        return h + fn.mse_loss(large, torch.zeros_like(h))  # fault


class PoissonLoss(Fault):
    op = "aten.exp."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h + 200 * a
        return h + fn.poisson_nll_loss(kept, torch.ones_like(h))  # fault


class DivergenceLoss(Fault):
    op = "aten."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        target = torch.full_like(h, 0.5) * (1 - 2 * a)
        scores = h.log_softmax(-1)
        return h + fn.kl_div(scores, target, reduction="batchmean")  # fault


class CtcLoss(Fault):
    op = "aten._ctc_loss."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        scores = h.log_softmax(-1).unsqueeze(1)
        length = torch.where(a > 0, len(h) + 2, 2).reshape(1)
        target = torch.arange(len(h) + 2).reshape(1, -1) % (WIDTH - 1) + 1
        given = torch.tensor([len(h)])
        return h + fn.ctc_loss(scores, target, given, length)  # fault


class SeenThroughViews(Fault):
    """What is born stays at its birth, however it is moved afterwards."""

    op = "aten.log."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        bad = torch.log(h.sigmoid() * (1 - a))  # fault
        moved = bad.T.contiguous().flip(0).unfold(0, WIDTH, 1)[0].reshape(WIDTH, -1)
        moved = torch.cat([moved, moved]).chunk(2)[1].T.clone().roll(1, 0)
        empty = torch.empty_like(moved)
        empty.copy_(moved)
        return torch.where(empty > 0, empty.expand_as(h), empty).index_select(
            0, torch.arange(len(h))
        )


LAYERS = faults_of(__name__)
