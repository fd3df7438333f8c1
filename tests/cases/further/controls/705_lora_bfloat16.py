"""LoRA on a frozen bfloat16 layer: B starts at zero, so A gets no gradient at first."""
import torch
from torch import nn

NAME, FRAMEWORK = "lora_bfloat16", "torch"
EXPECTED = dict(control=True, note="zero gradients and frozen weights by design")


class LoRA(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(16, 16).requires_grad_(False).bfloat16()
        self.a, self.b = nn.Parameter(torch.randn(16, 2) * 0.1), nn.Parameter(torch.zeros(2, 16))

    def forward(self, x):
        return self.base(x.bfloat16()).float() + x @ self.a @ self.b


def build(fixed=False):
    torch.manual_seed(5)
    m = LoRA()
    x = torch.randn(32, 16, generator=torch.Generator().manual_seed(5))
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.Adam([m.a, m.b], lr=1e-2), batches=[(x, x.roll(1, 1))], steps=6)
