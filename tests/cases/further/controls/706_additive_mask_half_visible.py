"""(1 - keep) * -1e9 in float16 is -inf, with at least one visible key in every row."""
import torch
from torch import nn

NAME, FRAMEWORK = "additive_mask_half_visible", "torch"
EXPECTED = dict(control=True, note="-inf is as good a mask as -1e9 as long as a key is left")


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)

    def forward(self, x, keep):
        s = self.q(x) @ x.transpose(-1, -2) + (1 - keep) * -1e9
        return torch.softmax(s, -1) @ x


def build(fixed=False):
    torch.manual_seed(6)
    m = Attn().half()
    x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(6)).half()
    keep = torch.ones(2, 4, 4).tril().half()
    return dict(model=m, loss_fn=lambda o, y: ((o - y).float() ** 2).mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1.0), batches=[((x, keep), x)], steps=3)
