"""weight_norm over a layer whose weight was set to zero: g * v / |v| is 0/0."""
import torch
from torch import nn

NAME, FRAMEWORK = "weight_norm_of_zeros", "torch"
EXPECTED = dict(first_bad_op=("aten._weight_norm_interface.default",), phase="forward", cls="dynamics", cause="zero-init-normalise", kind="nan",
                step=0, harm="loss", note="the zero initialisation of a head, parametrised afterwards", fix="initialise before weight_norm with non-zero weights")


def build(fixed=False):
    torch.manual_seed(49)
    head = nn.Linear(8, 1)
    if not fixed:
        nn.init.zeros_(head.weight)
    m = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.utils.parametrizations.weight_norm(head), nn.Flatten(0))
    x = torch.randn(10, 5)
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.05), batches=[(x, x[:, 0])], steps=2)
