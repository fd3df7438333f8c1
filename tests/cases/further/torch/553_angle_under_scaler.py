"""Angle between rotations by acos of exactly 1 under a GradScaler: it skips every step, whatever the scale."""
import torch
from torch import nn

NAME, FRAMEWORK = "angle_under_scaler", "torch"
EXPECTED = dict(first_bad_op=("aten.rsqrt.default",), phase="backward", cls="op-domain", cause="acos-grad-one", kind="+inf", step=0, harm="grad",
                row=0, skips=4, note="a smaller scale cannot heal 1/sqrt(1 - 1)", fix="clamp the cosine below one")


class Angle(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.q, self.fixed = nn.Parameter(torch.tensor([1.0, 0, 0, 0])), fixed

    def forward(self, x):
        cosine = (x @ (self.q / self.q.norm())).abs()
        return 2 * torch.acos(cosine.clamp(max=0.999) if self.fixed else cosine)


def build(fixed=False):
    torch.manual_seed(29)
    m = Angle(fixed)
    x = nn.functional.normalize(torch.randn(6, 4), dim=-1)
    x[0] = torch.tensor([1.0, 0, 0, 0])
    return dict(model=m, loss_fn=lambda a, _: a.mean(), optimizer=torch.optim.Adam(m.parameters(), lr=0.01), batches=[(x, torch.zeros(6))], steps=4,
                scaler=torch.amp.GradScaler("cpu", init_scale=2.0**8), autocast=dict(device_type="cpu", dtype=torch.float16))
