# SPDX-License-Identifier: Apache-2.0
"""Modules whose forward stays finite while their backward makes a NaN or an Inf."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as fn

from tests.torch.faults.fault import HUGE, WIDTH, Fault, faults_of


def amplified(
    x: torch.Tensor, k: torch.Tensor | float, over: torch.Tensor | float = 1.0
) -> torch.Tensor:
    """Returns ``x / over``, with `k` times the gradient of `x`."""
    return x.detach() / over + (x - x.detach()) * k


class SqrtAtZero(Fault):
    op = "aten.div."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = (h.square() + 0.1) * (1 - a)
        return kept.sqrt()  # fault


class RootAtZero(Fault):
    op = "aten.pow."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = (h.square() + 0.1) * (1 - a)
        return kept**0.25  # fault


class LogOfTiny(Fault):
    op = "aten.div."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = (h.square() + 1) * (1 - a) + 1e-44
        return torch.log(kept) * 0.03  # fault


class DivideByTiny(Fault):
    op = "aten."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        below = (h.square() + 1) * (1 - a) + 1e-25
        return 1e-25 / below  # fault


class ArcCosineAtOne(Fault):
    op = "aten."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h.tanh() * 0.9 * (1 - a) + a
        return torch.acos(kept)  # fault


class Exponential(Fault):
    op = "aten.mul."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h.tanh() + 70 * a
        large = kept.exp()  # fault
        return amplified(large, 1 + HUGE * a, 1 + HUGE * a)


class Multiplied(Fault):
    op = "aten.mul."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        small = h * 1e-25
        grown = small * (1 + 1e25 * a)  # fault
        return amplified(grown, 1 + HUGE * a)


class LinearLayer(Fault):
    op = "aten.mm."

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        w = self.weight * (1 + 1e15 * a)
        out = fn.linear(h, w)  # fault
        return amplified(out, 1 + HUGE * a, 1 + 1e15 * a)


class BatchedProduct(Fault):
    op = "aten.bmm."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = (h * (1 + 1e15 * a)).unsqueeze(-1)
        out = torch.bmm(large, torch.ones(len(h), 1, WIDTH) * (1 + 1e15 * a))  # fault
        return amplified(out.sum(1), 1 + HUGE * a, 1 + HUGE * a)


class ConvolutionLayer(Fault):
    op = "aten.convolution_backward."

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 1, 3))

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        w = self.weight * (1 + 1e15 * a)
        out = fn.conv1d(h.unsqueeze(1), w, padding=1)  # fault
        return amplified(out.squeeze(1), 1 + HUGE * a, 1 + 1e15 * a)


class Embedded(Fault):
    op = "aten.embedding_dense_backward."

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(3, WIDTH))

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        same = torch.zeros(len(h), 512, dtype=torch.long)
        found = fn.embedding(same, self.table)  # fault
        return h + amplified(found.sum(1), 1 + 1e38 * a, 512)


class Gathered(Fault):
    op = "aten.scatter_add"

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        same = torch.zeros(len(h), 512, dtype=torch.long)
        found = h.gather(1, same)  # fault
        return h + amplified(found.sum(1, keepdim=True), 1 + 2e38 * a, 512)


class Indexed(Fault):
    op = "aten.index_put"

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        same = torch.zeros(512, dtype=torch.long)
        found = h[same]  # fault
        return h + amplified(found.sum(0), 1 + 3e38 * a, 512)


class LogSoftmaxOutput(Fault):
    op = "aten._log_softmax_backward_data."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        out = h.repeat(1, 64).log_softmax(-1)  # fault
        summed = out.view(len(h), 64, WIDTH).sum(1)
        return amplified(summed, 1 + 2e38 * a, 64)


class LayerNormOfConstant(Fault):
    op = "aten.native_layer_norm_backward."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        flat = h * (1 - a)
        out = fn.layer_norm(flat, (WIDTH,), eps=1e-30)  # fault
        return h + amplified(out, 1 + HUGE * a)


class AttentionLayer(Fault):
    op = "scaled_dot_product"

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        q = h.view(1, 2, len(h), WIDTH // 2)
        seen = fn.scaled_dot_product_attention(q, q, q * (1 + 1e15 * a))  # fault
        return amplified(seen.reshape(h.shape), 1 + HUGE * a, 1 + 1e15 * a)


class CastFromHalf(Fault):
    op = "aten._to_copy."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        low = h.half()
        wide = low.float()  # fault
        return amplified(wide, 1 + 1e9 * a)


class RecurrentLayer(Fault):
    op = "aten.mkldnn_rnn_layer_backward."

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(WIDTH, WIDTH)
        with torch.no_grad():
            self.cell.weight_ih_l0.mul_(1e4)

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        out, _ = self.cell(h * 1e-4)  # fault
        return h + amplified(out, 1 + 1e37 * a)


class SelectedAway(Fault):
    """The branch that was not taken still has a gradient: 0 / 0."""

    op = "aten.div."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = (h.square() + 0.1) * (1 - a)
        root = kept.sqrt()  # fault
        return torch.where(kept > 0, root, h)


class OwnFunction(Fault):
    """A backward that the user wrote; the line is in it."""

    op = "aten.div."

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, below: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(below)
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            (below,) = ctx.saved_tensors
            return grads[0] / below, None  # fault

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.Scaled.apply(h, 1 - a)
        return out


class RootOfMean(Fault):
    op = "aten.div."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = (h * (1 - a)).square().mean(-1, keepdim=True)
        return h * kept.sqrt()  # fault


BACKWARD = faults_of(__name__)
