"""GradScaler starts far too high, finds its scale in a few steps, then clips and trains."""
import torch
from torch import nn

NAME, FRAMEWORK = "scaler_with_clipping", "torch"
EXPECTED = dict(control=True, allow_skips=True, note="the first steps overflow and are skipped on purpose")


def build(fixed=False):
    torch.manual_seed(4)
    g = torch.Generator().manual_seed(4)
    m = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    x, y = torch.randn(16, 8, generator=g), torch.randint(0, 4, (16,), generator=g)
    return dict(model=m, loss_fn=lambda o, y: nn.functional.cross_entropy(o.float(), y), optimizer=torch.optim.AdamW(m.parameters(), lr=1e-3),
                batches=[(x, y)], steps=16, scaler=torch.amp.GradScaler("cpu", init_scale=2.0**26), clip_grad_norm=1.0,
                autocast=dict(device_type="cpu", dtype=torch.float16))
