"""Weights drawn 30 times too large: loss and gradients stay finite, Adam's average of squares does not."""
import torch
from torch import nn

NAME, FRAMEWORK = "huge_init_under_adam", "torch"
EXPECTED = dict(first_bad_op=("aten.addcmul_.default", "aten._foreach_addcmul_.Scalar"), phase="optimizer", cls="dynamics", cause="bad-init", kind="+inf",
                step=0, harm="silent", note="gradients near 1e22 are finite, their squares are not: x / sqrt(inf) = 0 and the weights stand still", fix="initialise by fan-in")


def build(fixed=False):
    torch.manual_seed(55)
    layers = []
    for _ in range(16):
        linear = nn.Linear(64, 64)
        if not fixed:
            nn.init.normal_(linear.weight, std=5.0)
        layers += [linear, nn.ReLU()]
    m = nn.Sequential(*layers)

    def loss_fn(out, y):
        return (out - y).abs().mean()

    x = torch.randn(32, 64)
    return dict(model=m, loss_fn=loss_fn, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=[(x, torch.zeros(32, 64))], steps=2)
