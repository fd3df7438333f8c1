"""A small ResNet with zero-initialised last norms, float16 autocast and a GradScaler."""
import torch
from torch import nn
from torch.nn import functional as F

NAME, FRAMEWORK = "zero_gamma_resnet_half", "torch"
EXPECTED = dict(control=True, note="gradients of the residual branches are exactly zero at first, on purpose")


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c))
        nn.init.zeros_(self.a[-1].weight)
    def forward(self, x): return F.relu(x + self.a(x))

def build(fixed=False):
    torch.manual_seed(25)
    m = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), Res(8), Res(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    bs = [(torch.rand(8, 3, 12, 12), torch.randint(0, 10, (8,))) for _ in range(3)]
    return dict(model=m, loss_fn=F.cross_entropy, optimizer=torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4), batches=bs, steps=12,
                scaler=torch.amp.GradScaler("cpu", init_scale=1024.), autocast=dict(device_type="cpu", dtype=torch.float16))
