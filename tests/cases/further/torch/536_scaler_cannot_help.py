"""Float16 forward overflow under GradScaler: every step is skipped, nothing is ever learnt."""
import torch
from torch import nn

NAME, FRAMEWORK = "scaler_cannot_help", "torch"
EXPECTED = dict(first_bad_op=("aten.mul.Tensor",), phase="forward", cls="precision", cause="fp16-overflow", kind="+inf", step=0, harm="loss",
                skips=6, note="the loss itself is infinite, whatever the scale", fix="bfloat16")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, x):
        return self.b(nn.functional.relu(self.a(x)) * 2000).float()


def build(fixed=False):
    torch.manual_seed(36)
    m = Net()
    with torch.no_grad():
        m.b.weight.abs_()
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(36)) * 100
    return dict(model=m, loss_fn=nn.functional.l1_loss, optimizer=torch.optim.SGD(m.parameters(), lr=1e-12), batches=[(x, torch.zeros(16, 1))], steps=6,
                scaler=torch.amp.GradScaler("cpu", init_scale=2.0**8), autocast=dict(device_type="cpu", dtype=torch.bfloat16 if fixed else torch.float16))
