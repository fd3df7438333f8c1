"""A calibration head takes logits of given probabilities; one of them is exactly 1."""
import torch
from torch import nn

NAME, FRAMEWORK = "logit_of_certain", "torch"
EXPECTED = dict(first_bad_op=("aten.logit.default",), phase="forward", cls="op-domain", cause="logit-one", kind="+inf", step=2, harm="loss",
                row=5, note="a probability of 1 is what it may be; its logit is +inf", fix="torch.logit(p, eps=1e-4)")


class Calibrate(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.eps = nn.Linear(3, 1), 1e-4 if fixed else None

    def forward(self, p):
        return self.lin(torch.logit(p, eps=self.eps)).squeeze(-1)


def build(fixed=False):
    torch.manual_seed(48)
    m, batches = Calibrate(fixed), []
    for i in range(4):
        p = torch.rand(8, 3) * 0.8 + 0.1
        if i == 2:
            p[5, 1] = 1.0
        batches.append((p, p.mean(1)))
    return dict(model=m, loss_fn=nn.functional.smooth_l1_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.01), batches=batches, steps=4)
