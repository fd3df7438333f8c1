"""Generalised-mean pooling over a channel that relu shuts off everywhere."""
import torch
from torch import nn
from torch.nn import functional as F

NAME, FRAMEWORK = "gem_pooling_dead_channel", "torch"
EXPECTED = dict(control=True, note="the root's infinite slope becomes NaN in the cube's derivative, and relu's own derivative discards it")


class Gem(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.conv = nn.Conv2d(3, 4, 3)
    def forward(self, x):
        h = torch.relu(self.conv(x)).pow(3).mean((-1, -2))
        if self.fixed: h = h.clamp_min(1e-6)
        return h.pow(1 / 3)

def build(fixed=False):
    torch.manual_seed(15)
    m = Gem(fixed)
    m.conv.bias.data[1] = -30.
    x = torch.randn(4, 3, 8, 8)
    return dict(model=m, loss_fn=F.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.01), batches=[(x, torch.ones(4, 4))], steps=1)
