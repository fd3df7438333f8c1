"""Batches of very different difficulty in turn: loss and gradients jump a hundredfold and come back."""
import torch
from torch import nn

NAME, FRAMEWORK = "hard_batches_in_turn", "torch"
EXPECTED = dict(control=True, note="a large loss of a hard batch is no explosion")


def build(fixed=False):
    torch.manual_seed(7)
    g = torch.Generator().manual_seed(7)
    m = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    batches = []
    for scale in (1, 3, 10, 30, 100, 300):
        x = torch.randn(16, 4, generator=g)
        batches.append((x, scale * x.sum(1, keepdim=True)))
    return dict(model=m, loss_fn=nn.functional.huber_loss, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=batches, steps=18)
