"""Gumbel softmax with -log(-log u) noise, straight-through."""
import torch
from torch import nn

NAME, FRAMEWORK = "gumbel_straight_through", "torch"
EXPECTED = dict(control=True, note="ordinary sampling noise")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.b(nn.functional.gumbel_softmax(self.a(x), tau=0.1, hard=True))


def build(fixed=False):
    torch.manual_seed(13)
    m = Net()
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(13))
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=[(x, x)], steps=5)
