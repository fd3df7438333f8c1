"""Exponential link and Adam at learning rate 30: the rate overflows on the second step."""
import torch
from torch import nn

NAME, FRAMEWORK = "no_warm_up", "torch"
EXPECTED = dict(first_bad_op=("aten.exp.default",), phase="forward", cls="dynamics", cause="lr-too-high", kind="+inf", step=1, harm="loss",
                note="Adam moves every weight by the learning rate; exp(100) follows", fix="learning rate 1e-3")


def build(fixed=False):
    g = torch.Generator().manual_seed(35)
    torch.manual_seed(35)
    m = nn.Linear(6, 1)
    x = torch.rand(32, 6, generator=g)
    y = torch.poisson(torch.full((32, 1), 3.0), generator=g)
    return dict(model=m, loss_fn=lambda z, y: (torch.exp(z) - y * z).mean(), optimizer=torch.optim.Adam(m.parameters(), lr=1e-3 if fixed else 30.0),
                batches=[(x, y)], steps=4)
