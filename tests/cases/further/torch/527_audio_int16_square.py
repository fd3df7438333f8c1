"""RMS of int16 audio: the squares wrap around before they become float."""
import torch
from torch import nn

NAME, FRAMEWORK = "audio_int16_square", "torch"
EXPECTED = dict(first_bad_op=("aten.sqrt.default",), phase="forward", cls="data", cause="int-overflow", kind="nan", step=0, harm="loss",
                root_op="int16 product wraps negative", note="200^2 = 40000 does not fit int16", fix="x.float() first")


class Level(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(1, 1), fixed

    def forward(self, audio):
        x = audio.float() if self.fixed else audio
        return self.lin((x * x).float().mean(-1, keepdim=True).sqrt() / 100)


def build(fixed=False):
    torch.manual_seed(27)
    m = Level(fixed)
    audio = (200 * torch.sign(torch.randn(4, 50, generator=torch.Generator().manual_seed(27)))).to(torch.int16)
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=1e-2), batches=[(audio, torch.ones(4, 1))], steps=2)
