"""Fully masked rows give NaN in softmax, nan_to_num clears it, masked_fill stops the gradient."""
import torch
from torch import nn

NAME, FRAMEWORK = "nan_to_num_after_softmax", "torch"
EXPECTED = dict(control=True, note="the NaN of a row without keys never leaves the attention block")


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(4, 4)

    def forward(self, x, mask):
        s = (self.q(x) @ x.transpose(-1, -2)).masked_fill(~mask, float("-inf"))
        return torch.nan_to_num(torch.softmax(s, -1), nan=0.0) @ x


def build(fixed=False):
    torch.manual_seed(1)
    m = Attn()
    x = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, 4, 4, dtype=torch.bool).tril()
    mask[1, 2] = False
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=0.01), batches=[((x, mask), x)], steps=3)
