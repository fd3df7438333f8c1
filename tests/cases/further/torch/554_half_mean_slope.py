"""A model in float16 whose small loss is a mean over 65536 elements: its slope is below the smallest number."""
import torch
from torch import nn

NAME, FRAMEWORK = "half_mean_slope", "torch"
EXPECTED = dict(first_bad_op=("aten.mse_loss_backward.default",), phase="backward", cls="precision", cause="grad-underflow", kind="underflow",
                step=0, harm="silent", note="2 * error * 1e-3 / 65536 is about 1e-8; the first layer gets exact zeros", fix="float32, or scale the loss")


def build(fixed=False):
    torch.manual_seed(10)
    dtype = torch.float32 if fixed else torch.float16
    m = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 64)).to(dtype)
    x = torch.randn(1024, 8).to(dtype)

    def loss_fn(out, y):
        return 1e-3 * nn.functional.mse_loss(out, y)

    return dict(model=m, loss_fn=loss_fn, optimizer=torch.optim.SGD(m.parameters(), lr=1.0), batches=[(x, torch.zeros(1024, 64, dtype=dtype))], steps=2)
