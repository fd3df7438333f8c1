"""softplus written as log(1 + exp(z)) with logits past 88."""
import torch
from torch import nn

NAME, FRAMEWORK = "softplus_by_hand", "torch"
EXPECTED = dict(first_bad_op=("aten.exp.default",), phase="forward", cls="op-domain", cause="exp-overflow", kind="+inf", step=0, harm="loss",
                note="exp(z) overflows float32; softplus itself is about z", fix="torch.nn.functional.softplus")


class Rate(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(4, 2), fixed

    def forward(self, x):
        z = 100 * self.lin(x)                   # a sharpness of 100
        return (nn.functional.softplus(z) if self.fixed else torch.log(1 + torch.exp(z))) / 100


def build(fixed=False):
    torch.manual_seed(16)
    m = Rate(fixed)
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(16)) * 1.5
    return dict(model=m, loss_fn=lambda o, y: (o - 1).abs().mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[(x, x)], steps=2)
