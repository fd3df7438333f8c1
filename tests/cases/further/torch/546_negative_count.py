"""A count that is coded as -7 for missing goes through log(count + 1)."""
import torch
from torch import nn
from torch.nn import functional as F

NAME, FRAMEWORK = "negative_count", "torch"
EXPECTED = dict(first_bad_op=("aten.log.default",), phase="forward", cls="data", cause="sentinel-label", kind="nan",
                step=2, harm="loss", row=3, column=1, fix="leave missing counts out")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(5, 3)
    def forward(self, x):
        return F.softplus(self.lin(x))

def nll(rate, count):
    # negative binomial-like with log(count + 1)
    return (rate - torch.log(count + 1) * torch.log(rate)).mean()

def build(fixed=False):
    torch.manual_seed(6)
    m = Net()
    bs = []
    for i in range(4):
        y = torch.poisson(torch.full((8, 3), 4.0))
        if i == 2 and not fixed: y[3, 1] = -7.0
        bs.append((torch.randn(8, 5), y))
    return dict(model=m, loss_fn=nll, optimizer=torch.optim.Adam(m.parameters(), lr=0.01), batches=bs, steps=4)
