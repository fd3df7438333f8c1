"""Q-learning that bootstraps from itself with a discount above one."""
import torch
from torch import nn

NAME, FRAMEWORK = "bootstrapped_values", "torch"
EXPECTED = dict(first_bad_op=("aten.mean.default",), phase="forward", cls="dynamics", cause="diverging-targets", kind="+inf", step=36, harm="loss",
                note="targets 3 max Q grow faster than the fit", fix="discount 0.9 and a target network")


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, s, s2):
        return self.net(s), self.net(s2).detach()


def build(fixed=False):
    g = torch.Generator().manual_seed(34)
    torch.manual_seed(34)
    m, gamma = Q(), 0.5 if fixed else 3.0
    s = torch.rand(32, 4, generator=g)
    td = lambda o, r: ((o[0][:, 0] - (r + gamma * o[1].amax(1))) ** 2).mean()
    return dict(model=m, loss_fn=td, optimizer=torch.optim.SGD(m.parameters(), lr=0.3), batches=[((s, s.flip(0)), torch.rand(32, generator=g))], steps=400)
