"""Time differences of unix timestamps in float32, which resolves 128 seconds there."""
import torch
from torch import nn

NAME, FRAMEWORK = "unix_time_in_float32", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="forward", cls="precision", cause="timestamp-float32", kind="+inf", step=0, harm="loss",
                note="timestamps 10 s apart are equal in float32", fix="subtract as integers, then cast")


class Speed(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(5, 1), fixed

    def forward(self, time, way):
        dt = time.diff(dim=1).float() if self.fixed else time.float().diff(dim=1)
        return self.lin(way / dt)


def build(fixed=False):
    g = torch.Generator().manual_seed(28)
    torch.manual_seed(28)
    m = Speed(fixed)
    time = 1_700_000_000 + torch.arange(0, 60, 10) + torch.randint(0, 5, (4, 1), generator=g)
    return dict(model=m, loss_fn=nn.functional.l1_loss, optimizer=torch.optim.SGD(m.parameters(), lr=1e-3),
                batches=[((time, torch.rand(4, 5, generator=g) * 50), torch.ones(4, 1))], steps=2)
