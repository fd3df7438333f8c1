"""Centred RMSprop on a constant gradient: E[g^2] - E[g]^2 turns negative by rounding."""
import torch
from torch import nn

NAME, FRAMEWORK = "rmsprop_centered", "torch"
EXPECTED = dict(first_bad_op=("aten.sqrt_.default", "aten.sqrt.default", "aten._foreach_sqrt_.default"), phase="optimizer", cls="precision", cause="cancellation", kind="nan",
                step=22, harm="param", note="the gradient never changes, so its variance is pure rounding", fix="centered=False, or clamp")


def build(fixed=False):
    torch.manual_seed(32)
    m = nn.Linear(40, 1, bias=False)
    x = torch.rand(1, 40, generator=torch.Generator().manual_seed(32)) + 0.5
    return dict(model=m, loss_fn=lambda o, y: o.mean(), optimizer=torch.optim.RMSprop(m.parameters(), lr=1e-4, alpha=0.5, centered=not fixed),
                batches=[(x, x)], steps=60)
