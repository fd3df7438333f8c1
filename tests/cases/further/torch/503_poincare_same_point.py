"""Hyperbolic distance arccosh(1 + ...) between a point and itself: the slope at 1 is infinite."""
import torch
from torch import nn

NAME, FRAMEWORK = "poincare_same_point", "torch"
EXPECTED = dict(first_bad_op=("aten.rsqrt.default",), phase="backward", cls="op-domain", cause="acosh-grad-one", kind="+inf", step=0,
                harm="grad", note="(x^2 - 1)^-0.5 at x = 1, times a zero", fix="clamp the argument to 1 + 1e-6")


class Poincare(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.points, self.fixed = nn.Parameter(torch.randn(6, 2) * 0.2), fixed

    def forward(self, i, j):
        u, v = self.points[i], self.points[j]
        num = ((u - v) ** 2).sum(-1)
        arg = 1 + 2 * num / ((1 - (u ** 2).sum(-1)) * (1 - (v ** 2).sum(-1)))
        return torch.acosh(arg.clamp(min=1 + 1e-6) if self.fixed else arg)


def build(fixed=False):
    torch.manual_seed(3)
    m = Poincare(fixed)
    i, j = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 2, 5])
    return dict(model=m, loss_fn=lambda d, y: ((d - y) ** 2).mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-3),
                batches=[((i, j), torch.tensor([0.5, 1.0, 0.0, 2.0]))], steps=1)
