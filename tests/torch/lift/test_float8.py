# SPDX-License-Identifier: Apache-2.0
"""Training through float8: what is cut off in silence is told, what fits is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import numcheck_torch
from numcheck_torch.lift import Lift

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding

e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2


class Quantise(torch.autograd.Function):
    """Rounds to float8 and lets gradients through."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype).float()

    @staticmethod
    def backward(_: Any, *gradients: Any) -> tuple[torch.Tensor, None]:
        return gradients[0], None


class Net(torch.nn.Module):
    """Two layers, with activations of a given size in float8 between them."""

    def __init__(self, dtype: torch.dtype, size: float, most: float) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 64), torch.nn.Linear(64, 1)
        self.dtype, self.size, self.most = dtype, size, most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = (self.first(x).relu() * self.size).clamp(max=self.most)
        out: torch.Tensor = self.second(Quantise.apply(hidden, self.dtype)) / self.size  # type: ignore[no-untyped-call]
        return out


def warned_of(dtype: torch.dtype, size: float, most: float) -> list[Finding]:
    torch.manual_seed(0)
    net = Net(dtype, size, most)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    model = numcheck_torch.instrument(net, on_error="record")
    x = torch.randn(32, 8)
    (model(x) - x[:, :1]).square().mean().backward()
    optimizer.step()
    monitor: numcheck_torch.TorchMonitor = model.numcheck  # type: ignore[assignment]
    monitor.close()
    return [f for f in monitor.findings if f.severity != "note"]


def test_values_cut_off_at_448_are_told_with_what_they_harm() -> None:
    (finding,) = warned_of(e4m3, 1e4, 1e9)
    assert (finding.id, finding.severity, finding.kind) == (
        "N108",
        "warning",
        "saturation",
    )
    assert finding.site.dtype == "float8_e4m3fn"
    assert "gradient:second.weight" in [site.op for site in finding.harm]


@pytest.mark.parametrize(("size", "most"), [(1.0, 1e9), (500.0, 448.0)])
def test_what_fits_or_is_clamped_by_the_program_is_not_accused(
    size: float, most: float
) -> None:
    assert warned_of(e4m3, size, most) == []


def test_an_infinity_in_e5m2_is_the_format_s_fault() -> None:
    (finding,) = warned_of(e5m2, 1e6, 1e9)
    assert finding.id == "N105"
    assert finding.cause is not None
    assert (finding.cause.cls, finding.cause.certainty) == ("precision", "certain")


@pytest.mark.parametrize("by_rows", [False, True])
def test_a_scaled_product_is_lifted_to_that_of_the_scaled_operands(
    by_rows: bool,
) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(16, 32), torch.randn(16, 32)
    left = torch.rand((16, 1) if by_rows else ()) + 0.5
    right = torch.rand((1, 16) if by_rows else ()) + 0.5
    with Lift(torch.float32):
        product = torch._scaled_mm(
            a.to(e4m3), b.to(e4m3).t(), left, right, out_dtype=torch.bfloat16
        )
    torch.testing.assert_close(product, (a * left) @ (b.t() * right))
