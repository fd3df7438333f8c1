"""Pairwise distances as sqrt(|a|^2 + |b|^2 - 2ab): rounding leaves a negative number on the diagonal."""
import torch
from torch import nn

NAME, FRAMEWORK = "distances_by_expansion", "torch"
EXPECTED = dict(first_bad_op=("aten.sqrt.default",), phase="forward", cls="precision", cause="cancellation", kind="nan", step=0, harm="loss",
                note="two numbers near 14000 that differ by one rounding", fix="torch.cdist, or clamp before the root")


class Spread(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(8, 16), fixed

    def forward(self, x):
        z = self.lin(x) + 30.0
        square = (z * z).sum(-1)
        apart = square[:, None] + square[None] - 2 * z @ z.T
        return (apart.clamp(min=1e-3) if self.fixed else apart).sqrt()


def build(fixed=False):
    torch.manual_seed(20)
    m = Spread(fixed)
    x = torch.randn(10, 8) * 0.05
    return dict(model=m, loss_fn=lambda d, _: (d - 1).abs().mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-4),
                batches=[(x, torch.zeros(()))], steps=2)
