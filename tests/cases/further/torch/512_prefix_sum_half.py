"""Running total over a long sequence kept in float16."""
import torch
from torch import nn

NAME, FRAMEWORK = "prefix_sum_half", "torch"
EXPECTED = dict(first_bad_op=("aten.cumsum.default",), phase="forward", cls="precision", cause="fp16-sum-overflow", kind="+inf", step=0,
                harm="loss", note="2000 terms of about 50 pass 65504", fix="cumsum(dtype=torch.float32)")


class Integral(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.gain, self.fixed = nn.Parameter(torch.ones(1)), fixed

    def forward(self, x):
        return torch.cumsum(x * self.gain, 1, dtype=torch.float32 if self.fixed else None).float()


def build(fixed=False):
    m = Integral(fixed).half()
    x = (torch.rand(3, 2000, generator=torch.Generator().manual_seed(12)) * 20 + 40).half()
    return dict(model=m, loss_fn=lambda s, y: (s[:, -1] / 1e5 - y).abs().mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1.0),
                batches=[(x, torch.ones(3))], steps=2)
