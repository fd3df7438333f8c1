"""Thirty linear layers initialised with a standard deviation of 10."""
import torch
from torch import nn

NAME, FRAMEWORK = "init_std_ten", "torch"
EXPECTED = dict(first_bad_op=("aten.addmm.default",), phase="forward", cls="dynamics", cause="bad-init", kind="inf", step=0, harm="loss",
                note="activations grow about 50x per layer", fix="kaiming_normal_")


def build(fixed=False):
    torch.manual_seed(19)
    layers = []
    for _ in range(30):
        lin = nn.Linear(32, 32)
        nn.init.kaiming_normal_(lin.weight) if fixed else nn.init.normal_(lin.weight, std=10.0)
        layers += [lin, nn.ReLU()]
    m = nn.Sequential(*layers, nn.Linear(32, 1))
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(19))
    return dict(model=m, loss_fn=lambda o, y: o.abs().mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-4), batches=[(x, x)], steps=2)
