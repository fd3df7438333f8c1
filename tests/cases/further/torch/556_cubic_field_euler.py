"""A neural ODE with a cubic term, integrated by Euler steps that are too long: it explodes within the first forward."""
import torch
from torch import nn

NAME, FRAMEWORK = "cubic_field_euler", "torch"
EXPECTED = dict(first_bad_op=("aten.pow.Tensor_Scalar",), phase="forward", cls="dynamics", cause="unstable-integrator", kind="inf", step=0, harm="loss",
                note="dt x^2 > 2 overshoots further each time, by the cube", fix="a shorter step")


class Flow(nn.Module):
    def __init__(self, dt):
        super().__init__()
        self.field, self.dt = nn.Linear(4, 4), dt

    def forward(self, x):
        for _ in range(20):
            x = x + self.dt * (self.field(x) - x**3)
        return x


def build(fixed=False):
    torch.manual_seed(56)
    m = Flow(0.01 if fixed else 0.5)
    x = 3 * torch.randn(8, 4)
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=[(x, torch.zeros(8, 4))], steps=2)
