"""Linear recurrence with gain 2 over 200 steps: states stay finite, the gradient does not."""
import torch
from torch import nn

NAME, FRAMEWORK = "gradient_through_time", "torch"
EXPECTED = dict(first_bad_op=("aten.mm.default", "aten.bmm.default"), phase="backward", cls="dynamics", cause="exploding-gradient", kind="+inf", step=0,
                harm="grad", note="the start is 1e-25, so 2^200 times it is finite; the derivative 2^200 is not", fix="a gain below one")


class Recurrent(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.w, self.start = nn.Parameter(torch.eye(4) * gain), nn.Linear(2, 4)

    def forward(self, x):
        h = torch.nn.functional.softplus(self.start(x)) * 1e-30
        for _ in range(200):
            h = h @ self.w
        return h


def build(fixed=False):
    torch.manual_seed(20)
    m = Recurrent(0.9 if fixed else 2.0)
    x = torch.randn(5, 2, generator=torch.Generator().manual_seed(20))
    return dict(model=m, loss_fn=lambda h, y: h.mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[(x, x)], steps=1)
