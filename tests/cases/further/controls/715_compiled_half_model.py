"""Healthy float16 model compiled with aot_eager."""
import torch
from torch import nn

NAME, FRAMEWORK = "compiled_half_model", "torch"
EXPECTED = dict(control=True, note="well-scaled values")


def build(fixed=False):
    torch.manual_seed(15)
    m = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 1)).half()
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(15)).half()
    return dict(model=m, loss_fn=lambda o, y: ((o - y).float() ** 2).mean(), optimizer=torch.optim.SGD(m.parameters(), lr=0.05),
                batches=[(x, x[:, :1])], steps=4, compile=dict(backend="aot_eager"))
