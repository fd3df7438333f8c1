"""Diffusion with a last beta of 1: the signal left at the last time step is 0, and x0 is divided by its root."""
import torch
from torch import nn

NAME, FRAMEWORK = "terminal_signal_zero", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="forward", cls="op-domain", cause="divide-by-table-zero", kind="inf", step=1, harm="loss",
                row=2, note="the batch only draws the time step; the zero is in the schedule", fix="a schedule that ends above zero, or predict x0")


class Denoise(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.register_buffer("kept", (1 - torch.linspace(1e-4, 0.5 if fixed else 1.0, 10)).cumprod(0))

    def forward(self, x, t, noise):
        kept = self.kept[t][:, None]
        noisy = kept.sqrt() * x + (1 - kept).sqrt() * noise
        return (noisy - (1 - kept).sqrt() * self.net(noisy)) / kept.sqrt()


def build(fixed=False):
    torch.manual_seed(50)
    m, batches = Denoise(fixed), []
    for i in range(3):
        x, noise = torch.randn(6, 4), torch.randn(6, 4)
        batches.append(((x, torch.tensor([0, 3, 9 if i == 1 else 1, 2, 4, 5]), noise), x))
    return dict(model=m, loss_fn=nn.functional.l1_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.01), batches=batches, steps=3)
