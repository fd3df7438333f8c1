"""atan2(0, 0) of rows that relu shuts off; PyTorch defines its gradient as 0."""
import torch
from torch import nn
from torch.nn import functional as F

NAME, FRAMEWORK = "angle_at_origin", "torch"
EXPECTED = dict(control=True, note="atan2's backward masks the division by zero itself")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2, bias=False)
    def forward(self, x):
        v = torch.relu(self.lin(x))
        if self.fixed: v = v + 1e-3
        return torch.atan2(v[:, 1], v[:, 0])

def build(fixed=False):
    torch.manual_seed(1)
    m = Net(); m.fixed = fixed
    x = torch.randn(16, 4)
    return dict(model=m, loss_fn=F.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.01), batches=[(x, torch.zeros(16))], steps=2)
