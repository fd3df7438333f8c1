"""A mean over 1600 time steps, added up one by one in bfloat16: beyond 256 an addend near 1 is often rounded away."""
import torch
from torch import nn

NAME, FRAMEWORK = "bfloat16_step_by_step_sum", "torch"
EXPECTED = dict(first_bad_op=("aten.add.Tensor",), phase="forward", cls="precision", cause="bf16-stagnation", kind="stagnation", step=0, harm="silent",
                note="neighbouring numbers lie 2 apart there; the mean comes out near 0.3 instead of 1", fix="add up in float32")


class Pool(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.dtype = nn.Linear(4, 4).bfloat16(), torch.float32 if fixed else torch.bfloat16
        with torch.no_grad():
            self.lin.weight.mul_(0.01)
            self.lin.bias.fill_(1.0)

    def forward(self, x):
        h = self.lin(x)
        total = torch.zeros(x.shape[0], 4, dtype=self.dtype)
        for t in range(x.shape[1]):
            total = total + h[:, t]
        return (total / x.shape[1]).float()


def build(fixed=False):
    torch.manual_seed(58)
    m = Pool(fixed)
    x, y = torch.randn(2, 1600, 4).bfloat16(), torch.randn(2, 4)
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.05), batches=[(x, y)], steps=1)
