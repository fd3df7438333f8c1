"""Features standardised by std + eps behind a relu: some units are dead, and their deviation is zero."""
import torch
from torch import nn

NAME, FRAMEWORK = "deviation_of_dead_units", "torch"
EXPECTED = dict(control=True, benign_births=("aten.div.Tensor",), note="the derivative of std replaces its own 0 / 0; nothing comes of it")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 4)

    def forward(self, x):
        h = torch.relu(self.lin(x) - 3)
        return (h - h.mean(0)) / (h.std(0) + 1e-5)


def build(fixed=False):
    torch.manual_seed(42)
    m = Net()
    x = torch.randn(16, 8)
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=1e-2), batches=[(x, torch.randn(16, 4))], steps=3)
