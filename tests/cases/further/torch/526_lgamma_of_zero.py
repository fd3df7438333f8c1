"""Negative binomial likelihood whose dispersion comes out of a relu: lgamma(0) is infinite."""
import torch
from torch import nn

NAME, FRAMEWORK = "lgamma_of_zero", "torch"
EXPECTED = dict(first_bad_op=("aten.lgamma.default",), phase="forward", cls="op-domain", cause="lgamma-pole", kind="+inf", step=0, harm="loss",
                note="lgamma has a pole at 0", fix="softplus + eps")


class Counts(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(4, 2), fixed

    def forward(self, x):
        a, b = self.lin(x).unbind(-1)
        return (nn.functional.softplus(a) + 1e-3 if self.fixed else torch.relu(a)), torch.sigmoid(b)


def nll(out, y):
    r, p = out
    return -(torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1) + r * torch.log(1 - p) + y * torch.log(p)).mean()


def build(fixed=False):
    g = torch.Generator().manual_seed(26)
    torch.manual_seed(26)
    m = Counts(fixed)
    return dict(model=m, loss_fn=nll, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3),
                batches=[(torch.randn(10, 4, generator=g), torch.randint(1, 9, (10,), generator=g).float())], steps=2)
