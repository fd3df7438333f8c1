"""atan2(0, 0): torch masks the infinite slope itself."""
import torch
from torch import nn

NAME, FRAMEWORK = "heading_at_origin", "torch"
EXPECTED = dict(control=True, note="1 / (x^2 + y^2) is inf inside atan2's backward and is filled with 0 there")


class Heading(nn.Module):
    def __init__(self):
        super().__init__()
        self.rot = nn.Linear(2, 2, bias=False)

    def forward(self, v):
        p = self.rot(v)
        return torch.atan2(p[:, 1], p[:, 0])


def build(fixed=False):
    torch.manual_seed(2)
    m = Heading()
    v = torch.randn(8, 2, generator=torch.Generator().manual_seed(2))
    v[5] = 0
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[(v, torch.zeros(8))], steps=3)
