"""A buffer keeps the smallest distance ever seen to each class; of a class without samples it stays +inf."""
import torch
from torch import nn

NAME, FRAMEWORK = "nearest_of_unseen_classes", "torch"
EXPECTED = dict(control=True, note="inf is the neutral element of the minimum; the loss never reads it")


class Nearest(nn.Module):
    def __init__(self):
        super().__init__()
        self.centre = nn.Parameter(torch.randn(4, 3))
        self.register_buffer("best", torch.full((4,), float("inf")))

    def forward(self, x, label):
        d = torch.cdist(x, self.centre)
        own = torch.where(label[:, None] == torch.arange(4), d.detach(), float("inf"))
        self.best = torch.minimum(self.best, own.amin(0))
        return d.amin(1)


def build(fixed=False):
    torch.manual_seed(15)
    m = Nearest()
    x, label = torch.randn(10, 3), torch.arange(10) % 3
    return dict(model=m, loss_fn=lambda d, _: d.mean(), optimizer=torch.optim.SGD(m.parameters(), lr=0.1), batches=[((x, label), x)], steps=5)
