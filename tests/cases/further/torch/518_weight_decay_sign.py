"""L2 penalty subtracted instead of added: the weights grow without bound."""
import torch
from torch import nn

NAME, FRAMEWORK = "weight_decay_sign", "torch"
EXPECTED = dict(first_bad_op=("aten.sum.default",), phase="forward", cls="dynamics", cause="weight-growth", kind="+inf", step=41,
                harm="loss", note="the penalty rewards size; every step multiplies the weights", fix="add the penalty")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.lin(x)), self.lin.weight


def build(fixed=False):
    torch.manual_seed(18)
    m = Net()
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(18))
    sign = 1.0 if fixed else -1.0

    def loss_fn(out, y):
        return ((out[0] - y) ** 2).mean() + sign * 0.5 * out[1].pow(2).sum()

    return dict(model=m, loss_fn=loss_fn, optimizer=torch.optim.SGD(m.parameters(), lr=0.2 if fixed else 2.0), batches=[(x, x)], steps=90)
