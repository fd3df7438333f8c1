"""KL between two policies with the same forbidden action: -inf - (-inf)."""
import torch
from torch import nn

NAME, FRAMEWORK = "kl_of_two_masked", "torch"
EXPECTED = dict(first_bad_op=("aten.sub.Tensor",), phase="forward", cls="op-domain", cause="inf-minus-inf", kind="nan", step=0, harm="loss",
                note="log p - log q of an action both policies forbid", fix="a finite floor")


class Policy(nn.Module):
    def __init__(self, low):
        super().__init__()
        self.new, self.old, self.low = nn.Linear(4, 5), nn.Linear(4, 5), low

    def forward(self, obs):
        ban = torch.tensor([False, False, True, False, False])
        return tuple(torch.log_softmax(f(obs).masked_fill(ban, self.low), -1) for f in (self.new, self.old))


def build(fixed=False):
    torch.manual_seed(25)
    m = Policy(-1e9 if fixed else float("-inf"))
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(25))
    return dict(model=m, loss_fn=lambda o, y: (o[0].exp() * (o[0] - o[1])).sum(-1).mean(), optimizer=torch.optim.SGD(m.parameters(), lr=0.1),
                batches=[(x, x)], steps=2)
