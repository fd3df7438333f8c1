"""E[x^2] - E[x]^2 on values with a large mean: rounding makes it negative."""
import torch
from torch import nn

NAME, FRAMEWORK = "variance_by_moments", "torch"
EXPECTED = dict(first_bad_op=("aten.sqrt.default",), phase="forward", cls="precision", cause="cancellation", kind="nan", step=0, harm="loss",
                note="the variance of about 1e-6 is below the rounding of 4e6", fix="torch.var, which subtracts the mean first")


class Standardise(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(6, 6, bias=False), fixed
        with torch.no_grad():
            self.lin.weight.copy_(torch.eye(6))

    def forward(self, x):
        h = self.lin(x)
        if self.fixed:
            var = h.var(-1, keepdim=True, unbiased=False)
        else:
            var = (h * h).mean(-1, keepdim=True) - h.mean(-1, keepdim=True) ** 2
        return (h - h.mean(-1, keepdim=True)) / (torch.sqrt(var) + 1e-3)


def build(fixed=False):
    torch.manual_seed(23)
    m = Standardise(fixed)
    x = 2000 + 1e-3 * torch.randn(32, 6, generator=torch.Generator().manual_seed(23))
    return dict(model=m, loss_fn=lambda o, y: (o - 1).abs().mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-9), batches=[(x, x)], steps=1)
