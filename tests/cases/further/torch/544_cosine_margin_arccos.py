"""ArcFace margin: arccos of a cosine that rounding pushes past one."""
import torch
from torch import nn

NAME, FRAMEWORK = "cosine_margin_arccos", "torch"
EXPECTED = dict(first_bad_op=("aten.acos.default",), phase="forward", cls="op-domain", cause="acos-domain", kind="nan", step=0, harm="loss",
                note="a unit vector's product with itself is 1.0000001", fix="clamp to 1 - 1e-7")


class Arc(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.w, self.fixed = nn.Parameter(torch.randn(4, 7)), fixed

    def forward(self, x):
        w = self.w / self.w.norm(dim=-1, keepdim=True)
        c = (x / x.norm(dim=-1, keepdim=True)) @ w.T
        return torch.cos(torch.acos(c.clamp(-1 + 1e-6, 1 - 1e-6) if self.fixed else c * (1 + 1e-6)) + 0.1) * 8


def build(fixed=False):
    torch.manual_seed(44)
    m = Arc(fixed)
    x = torch.cat([m.w.detach().clone(), torch.randn(4, 7, generator=torch.Generator().manual_seed(44))])
    return dict(model=m, loss_fn=nn.functional.cross_entropy, optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[(x, torch.arange(8) % 4)], steps=1)
