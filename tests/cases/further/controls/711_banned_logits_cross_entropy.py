"""Forbidden classes get -inf logits; the label is always allowed."""
import torch
from torch import nn

NAME, FRAMEWORK = "banned_logits_cross_entropy", "torch"
EXPECTED = dict(control=True, note="log_softmax of -inf is -inf where no label points")


class Clf(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 6)

    def forward(self, x):
        z = self.lin(x).clone()
        z[:, 4:] = float("-inf")
        return z


def build(fixed=False):
    torch.manual_seed(11)
    g = torch.Generator().manual_seed(11)
    m = Clf()
    return dict(model=m, loss_fn=nn.functional.cross_entropy, optimizer=torch.optim.Adam(m.parameters(), lr=1e-2),
                batches=[(torch.randn(10, 4, generator=g), torch.randint(0, 4, (10,), generator=g))], steps=4)
