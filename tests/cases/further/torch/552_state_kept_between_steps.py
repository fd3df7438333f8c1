"""A recurrent state that a buffer carries from step to step, with a gain of 3.5."""
import torch
from torch import nn

NAME, FRAMEWORK = "state_kept_between_steps", "torch"
EXPECTED = dict(first_bad_op=("aten.mul.Tensor",), phase="forward", cls="dynamics", cause="exploding-recurrence", kind="+inf", step=72, harm="loss",
                note="no parameter drifts: the state alone does, one factor at a step", fix="a gain below one")


class Stateful(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.inp, self.out, self.gain = nn.Linear(3, 8), nn.Linear(8, 1), 0.9 if fixed else 3.5
        self.register_buffer("h", torch.zeros(8))

    def forward(self, x):
        h = self.gain * self.h + self.inp(x).mean(0).abs()
        self.h = h.detach()
        return self.out(h)


def build(fixed=False):
    torch.manual_seed(24)
    m = Stateful(fixed)
    return dict(model=m, loss_fn=lambda o, _: torch.tanh(o).sum(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-3),
                batches=[(torch.randn(8, 3), torch.zeros(1))], steps=80)
