"""Additive mask (1 - keep) * -1e9 in float16, and a row that keeps nothing."""
import torch
from torch import nn

NAME, FRAMEWORK = "additive_mask_half", "torch"
EXPECTED = dict(first_bad_op=("aten.mul.Tensor",), phase="forward", cls="precision", cause="mask-too-large", kind="-inf", step=0, harm="loss",
                note="-1e9 is -inf in float16; float32 would give a uniform row instead of NaN", fix="-1e4, or finfo(dtype).min")


class Attn(nn.Module):
    def __init__(self, floor):
        super().__init__()
        self.q, self.floor = nn.Linear(8, 8), floor

    def forward(self, x, keep):
        s = self.q(x) @ x.transpose(-1, -2) + (1 - keep) * self.floor
        return torch.softmax(s, -1) @ x


def build(fixed=False):
    torch.manual_seed(33)
    m = Attn(-1e4 if fixed else -1e9).half()
    x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(33)).half()
    keep = torch.ones(2, 4, 4).tril().half()
    keep[1, 0] = 0
    return dict(model=m, loss_fn=lambda o, y: ((o - y).float() ** 2).mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-3),
                batches=[((x, keep), x)], steps=2)
