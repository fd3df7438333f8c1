"""A buffer keeps the best loss seen so far and starts at +inf."""
import torch
from torch import nn

NAME, FRAMEWORK = "best_loss_starts_at_inf", "torch"
EXPECTED = dict(control=True, note="inf is the neutral start of a minimum")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 1)
        self.register_buffer("best", torch.tensor(float("inf")))

    def forward(self, x):
        out = self.lin(x)
        with torch.no_grad():
            self.best.copy_(torch.minimum(self.best, out.abs().amax()))
        return out


def build(fixed=False):
    torch.manual_seed(10)
    m = Net()
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(10))
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.01), batches=[(x, x[:, :1])], steps=3)
