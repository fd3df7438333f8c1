"""Adam on float16 weights: squared gradients of 1e-5 vanish in the second moment."""
import torch
from torch import nn

NAME, FRAMEWORK = "half_optimizer_state", "torch"
EXPECTED = dict(first_bad_op=("aten.addcdiv_.default",), phase="optimizer", cls="precision", cause="fp16-eps-underflow", kind=("+inf", "-inf", "inf", "nan"), step=0, harm="param",
                note="v = 0 and eps = 0 in float16: m / 0", fix="float32 optimizer state")


def build(fixed=False):
    torch.manual_seed(43)
    m = nn.Linear(4, 1)
    m = m if fixed else m.half()
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(43)).to(m.weight.dtype)
    return dict(model=m, loss_fn=lambda o, y: (o.float() * 1e-3).mean(), optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=[(x, x)], steps=2)
