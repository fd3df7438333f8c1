"""Fine-tuning bfloat16 weights with a learning rate of 1e-5: no weight moves."""
import torch
from torch import nn

NAME, FRAMEWORK = "tiny_learning_rate_bfloat16", "torch"
EXPECTED = dict(first_bad_op=("aten.addcdiv_.default", "aten.add_.Tensor", "aten._foreach_addcdiv_.ScalarList"), phase="optimizer", cls="precision", cause="bf16-stagnation", kind="stagnation",
                step=0, harm="silent", note="an update of 1e-5 is below half a step of bfloat16 at 0.1", fix="float32 master weights")


def build(fixed=False):
    torch.manual_seed(37)
    m = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))
    with torch.no_grad():
        for p in m.parameters():
            p.copy_(torch.sign(p + 1e-9) * (p.abs() + 0.05))
    m = m if fixed else m.bfloat16()
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(37))
    x = x if fixed else x.bfloat16()
    return dict(model=m, loss_fn=lambda o, y: ((o - y) ** 2).mean(), optimizer=torch.optim.AdamW(m.parameters(), lr=1e-5, weight_decay=0.0),
                batches=[(x, x[:, :1])], steps=4)
