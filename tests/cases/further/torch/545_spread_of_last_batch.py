"""The last batch has one sample left, whose unbiased standard deviation is 0 / 0."""
import torch
from torch import nn
from torch.nn import functional as F

NAME, FRAMEWORK = "spread_of_last_batch", "torch"
EXPECTED = dict(first_bad_op=("aten.std.correction",), phase="forward", cls="data", cause="single-sample-std", kind="nan",
                step=1, harm="loss", fix="drop_last=True, or std(unbiased=False)")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 4)
    def forward(self, x):
        h = self.lin(x)
        return (h - h.mean(0)) / (h.std(0) + 1e-5)

def build(fixed=False):
    torch.manual_seed(0)
    m = Net()
    x = torch.randn(9, 6); y = torch.randn(9, 4)
    b = [(x[:8], y[:8]), (x[8:], y[8:])]
    if fixed: b = b[:1]
    return dict(model=m, loss_fn=F.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.01), batches=b, steps=2)
