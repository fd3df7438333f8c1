"""Attention scores in float16 without 1 / sqrt(d), on large activations."""
import torch
from torch import nn

NAME, FRAMEWORK = "unscaled_scores_half", "torch"
EXPECTED = dict(first_bad_op=("aten.bmm.default",), phase="forward", cls="precision", cause="fp16-matmul-overflow", kind="+inf", step=0,
                harm="loss", note="q.k reaches 1e5; float32 holds it easily", fix="scale q before the product, or bfloat16")


class Attn(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.q, self.k, self.scale = nn.Linear(64, 64), nn.Linear(64, 64), scale

    def forward(self, x):
        s = (self.q(x) * self.scale) @ self.k(x).transpose(-1, -2)
        return torch.softmax(s, -1) @ x


def build(fixed=False):
    torch.manual_seed(11)
    m = Attn(64 ** -0.5 if fixed else 1.0)
    x = torch.randn(2, 6, 64, generator=torch.Generator().manual_seed(11)) * 250
    return dict(model=m, loss_fn=lambda o, y: (o.float() - y).abs().mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-6),
                batches=[(x, x)], steps=2, autocast=dict(device_type="cpu", dtype=torch.float16))
