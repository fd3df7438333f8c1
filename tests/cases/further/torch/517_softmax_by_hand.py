"""softmax written as exp(z) / sum(exp(z)) on sharp logits."""
import torch
from torch import nn

NAME, FRAMEWORK = "softmax_by_hand", "torch"
EXPECTED = dict(first_bad_op=("aten.exp.default",), phase="forward", cls="op-domain", cause="exp-overflow", kind="+inf", step=0, harm="loss",
                note="inf / inf follows", fix="subtract the maximum, or torch.softmax")


class Net(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(4, 3), fixed

    def forward(self, x):
        z = self.lin(x) / 0.005                  # temperature
        if self.fixed:
            return torch.softmax(z, -1)
        e = torch.exp(z)
        return e / e.sum(-1, keepdim=True)


def build(fixed=False):
    g = torch.Generator().manual_seed(17)
    torch.manual_seed(17)
    m = Net(fixed)
    x, y = 3 * torch.randn(16, 4, generator=g), torch.rand(16, 3, generator=g)
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[(x, y)], steps=2)
