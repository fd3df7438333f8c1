"""An echo state that starts at zero and fills up: loss and gradient norm rise at every step, to a limit."""
import torch
from torch import nn

NAME, FRAMEWORK = "reservoir_fills_up", "torch"
EXPECTED = dict(control=True, note="the gradient is zero at first, so that no factor tells its growth")


class Echo(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 1)
        self.register_buffer("state", torch.zeros(8))
        self.register_buffer("ring", 0.9 * torch.eye(8).roll(1, 0))

    def forward(self, x):
        drive = self.state
        self.state = self.ring @ self.state + x.mean()
        return self.out(drive)


def build(fixed=False):
    torch.manual_seed(41)
    m = Echo()
    with torch.no_grad():
        m.out.weight.fill_(0.3)
        m.out.bias.zero_()
    return dict(model=m, loss_fn=lambda out, y: out.abs().mean(), optimizer=torch.optim.SGD([m.out.weight], lr=1e-6), batches=[(torch.ones(4), torch.zeros(1))],
                steps=24)
