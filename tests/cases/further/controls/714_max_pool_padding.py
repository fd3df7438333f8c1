"""Max pooling with padding, batch norm and a tiny batch."""
import torch
from torch import nn

NAME, FRAMEWORK = "max_pool_padding", "torch"
EXPECTED = dict(control=True, note="padding counts as -inf inside the pool")


def build(fixed=False):
    torch.manual_seed(14)
    m = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Flatten(), nn.Linear(64, 3))
    g = torch.Generator().manual_seed(14)
    x = torch.randn(2, 1, 8, 8, generator=g)
    x[1] = 0
    return dict(model=m, loss_fn=nn.functional.cross_entropy, optimizer=torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4),
                batches=[(x, torch.tensor([0, 2]))], steps=4)
