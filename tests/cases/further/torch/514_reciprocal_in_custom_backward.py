"""A hand-written autograd.Function whose backward divides by its input."""
import torch
from torch import nn

NAME, FRAMEWORK = "reciprocal_in_custom_backward", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="backward", cls="op-domain", cause="custom-backward", kind="nan", step=0, harm="grad",
                note="x log|x| is 0 at 0; backward writes its slope as (y + x) / x", fix="use the closed form log|x| + 1 with a floor")


class XLogX(torch.autograd.Function):
    safe = False

    @staticmethod
    def forward(ctx, x):
        y = torch.where(x == 0, 0.0, x * torch.log(x.abs().clamp(min=1e-30)))
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (torch.log(x.abs().clamp(min=1e-6)) + 1) if XLogX.safe else g * ((y + x) / x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.gain = nn.Linear(4, 5), nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.lin(XLogX.apply(x * self.gain))


def build(fixed=False):
    torch.manual_seed(14)
    XLogX.safe = fixed
    m = Net()
    x = torch.relu(torch.randn(6, 4, generator=torch.Generator().manual_seed(14)))
    return dict(model=m, loss_fn=lambda o, y: (o ** 2).mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[(x, x)], steps=2)
