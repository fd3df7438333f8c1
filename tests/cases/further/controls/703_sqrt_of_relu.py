"""sqrt(relu(x)) under activation checkpointing: relu's backward discards the infinite slope."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

NAME, FRAMEWORK = "sqrt_of_relu", "torch"
EXPECTED = dict(control=True, note="inf at relu's dead units is masked by relu's own derivative; the others learn")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 1)

    def forward(self, x):
        return self.b(checkpoint(lambda x: torch.sqrt(torch.relu(self.a(x))), x, use_reentrant=False))


def build(fixed=False):
    torch.manual_seed(3)
    m = Net()
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[(x, torch.zeros(6, 1))], steps=3)
