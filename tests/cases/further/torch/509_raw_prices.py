"""Regression on raw prices of about 1e4 with an ordinary learning rate."""
import torch
from torch import nn

NAME, FRAMEWORK = "raw_prices", "torch"
EXPECTED = dict(first_bad_op=("aten.mse_loss.default",), phase="forward", cls="data", cause="unnormalised-input", kind="+inf", step=2,
                harm="loss", note="gradient descent is unstable above 2 / E[x^2]; with standardised inputs this learning rate is fine",
                fix="standardise the features")


def build(fixed=False):
    g = torch.Generator().manual_seed(9)
    torch.manual_seed(9)
    m = nn.Linear(3, 1)
    x = torch.rand(64, 3, generator=g) * 1e4 + 2e4
    y = x.mean(1, keepdim=True) / 1e4
    if fixed:
        x = (x - x.mean(0)) / x.std(0)
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.01), batches=[(x, y)], steps=30)
