"""log1p of a duration in which -1 means unknown."""
import torch
from torch import nn

NAME, FRAMEWORK = "log_of_minus_one_code", "torch"
EXPECTED = dict(first_bad_op=("aten.log1p.default",), phase="forward", cls="data", cause="sentinel", kind="-inf", step=1, harm="loss", row=3,
                note="log1p(-1) = -inf", fix="treat unknown durations apart")


class Survival(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, d):
        return self.net(torch.log1p(d)).squeeze(-1)


def build(fixed=False):
    g = torch.Generator().manual_seed(10)
    torch.manual_seed(10)
    m, batches = Survival(), []
    for i in range(3):
        d = torch.rand(7, 3, generator=g) * 40
        if i == 1 and not fixed:
            d[3, 2] = -1
        batches.append((d, torch.randn(7, generator=g)))
    return dict(model=m, loss_fn=nn.functional.l1_loss, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=batches, steps=3)
