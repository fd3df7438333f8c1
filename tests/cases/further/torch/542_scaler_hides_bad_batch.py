"""float16 autocast, GradScaler and clipping; a division by a batch maximum of zero in one batch."""
import torch
from torch import nn

NAME, FRAMEWORK = "scaler_hides_bad_batch", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="forward", cls="data", cause="zero-scale", kind="nan", step=2, harm="loss", row=3,
                skips=1, note="a silent frame divided by its own maximum", fix="clamp the maximum")


class Net(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.net, self.fixed = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)), fixed

    def forward(self, x):
        top = x.abs().amax(-1, keepdim=True)
        return self.net(x / (top.clamp(min=1e-5) if self.fixed else top)).float()


def build(fixed=False):
    torch.manual_seed(42)
    g = torch.Generator().manual_seed(42)
    m, batches = Net(fixed), []
    for i in range(4):
        x = torch.randn(6, 8, generator=g)
        x[3] *= i != 2
        batches.append((x, x[:, :1].tanh()))
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.AdamW(m.parameters(), lr=1e-3), batches=batches, steps=4,
                scaler=torch.amp.GradScaler("cpu", init_scale=2.0**10), clip_grad_norm=1.0, autocast=dict(device_type="cpu", dtype=torch.float16))
