# SPDX-License-Identifier: Apache-2.0
"""Pointwise operators and reductions that make a NaN or an Inf in the forward."""

from __future__ import annotations

import torch

from tests.torch.faults.fault import HUGE, Fault, faults_of


class Log(Fault):
    op = "aten.log."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = (h.square() + 0.1) * (1 - a)
        return torch.log(kept)  # fault


class Log1p(Fault):
    op = "aten.log1p."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h.sigmoid() * (1 - a) - a
        return torch.log1p(kept)  # fault


class Sqrt(Fault):
    op = "aten.sqrt."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h.square() + 0.1 - 100 * a
        return kept.sqrt()  # fault


class Rsqrt(Fault):
    op = "aten.rsqrt."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = (h.square() + 0.1) * (1 - a)
        return kept.rsqrt()  # fault


class Divide(Fault):
    op = "aten.div."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        below = (h.square() + 1) * (1 - a)
        return h / below  # fault


class Reciprocal(Fault):
    op = "aten.reciprocal."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        below = (h.square() + 1) * (1 - a)
        return 1 / below  # fault


class PowerOfNegative(Fault):
    op = "aten.pow."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h.square() + 0.1 - 100 * a
        return kept**1.5  # fault


class PowerOverflows(Fault):
    op = "aten.pow."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        exponent = 1 + 200 * a
        return (h.abs() + 3) ** exponent  # fault


class Exp(Fault):
    op = "aten.exp."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h + 200 * a
        return kept.exp()  # fault


class Expm1(Fault):
    op = "aten.expm1."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h + 200 * a
        return torch.expm1(kept)  # fault


class Square(Fault):
    op = "aten.pow."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h * (1 + HUGE * a)
        return kept.square()  # fault


class Multiply(Fault):
    op = "aten.mul."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        scale = 1 + HUGE * a
        scaled = h * scale
        return scaled * scale  # fault


class Add(Fault):
    op = "aten.add."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() * 0.1 + 3.2e38 * a
        return large + large  # fault


class Subtract(Fault):
    op = "aten.sub."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() * 0.1 + 3.2e38 * a
        return large - 3.2e38 * -a  # fault


class InPlace(Fault):
    op = "aten.div_."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h.clone()
        kept.div_(1 - a)  # fault
        return kept


class ArcCosine(Fault):
    op = "aten.acos."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        kept = h.tanh() * 0.9 + 2 * a
        return torch.acos(kept)  # fault


class Sum(Fault):
    op = "aten.sum."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() * 0.01 + 2e38 * a
        return h + large.sum(-1, keepdim=True)  # fault


class Mean(Fault):
    op = "aten.mean."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() * 0.01 + 3e38 * a
        return h + large.mean(-1, keepdim=True)  # fault


class Variance(Fault):
    op = "aten.var."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h * (1 + HUGE * a)
        return h + large.var(-1, keepdim=True)  # fault


class Norm(Fault):
    op = "aten.linalg_vector_norm."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h * (1 + HUGE * a)
        return h + large.norm(dim=-1, keepdim=True)  # fault


class Product(Fault):
    op = "aten.prod."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() + 1.5 + HUGE * a
        return h + large.prod(-1, keepdim=True)  # fault


class CumulativeSum(Fault):
    op = "aten.cumsum."

    def forward(self, h: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        large = h.tanh() * 0.01 + 2e38 * a
        return large.cumsum(-1)  # fault


ARITHMETIC = faults_of(__name__)
