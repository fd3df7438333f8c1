"""Fake quantisation by the largest magnitude of each row, and one row of the batch is silence: 0 / 0."""
import torch
from torch import nn

NAME, FRAMEWORK = "quantiser_of_silence", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="forward", cls="data", cause="zero-scale", kind="nan", step=1, harm="loss", row=4,
                fix="clamp the scale from below")


class Quantised(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.least = nn.Linear(8, 2), 1e-8 if fixed else 0.0

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        if self.least:
            scale = scale.clamp(min=self.least)
        return self.lin(torch.round(x / scale).clamp(-128, 127) * scale)


def build(fixed=False):
    torch.manual_seed(60)
    m = Quantised(fixed)
    x, y = torch.randn(6, 8), torch.randint(0, 2, (6,))
    silent = x.clone()
    silent[4] = 0
    return dict(model=m, loss_fn=nn.functional.cross_entropy, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=[(x, y), (silent, y)], steps=3)
