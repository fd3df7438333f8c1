"""Entropy bonus sum(p log p) of a policy whose forbidden actions have -inf logits."""
import torch
from torch import nn

NAME, FRAMEWORK = "entropy_of_masked_policy", "torch"
EXPECTED = dict(first_bad_op=("aten.mul.Tensor",), phase="forward", cls="op-domain", cause="zero-times-inf", kind="nan", step=0, harm="loss",
                note="p = 0 and log p = -inf for a forbidden action", fix="torch.finfo.min instead of -inf, or torch.special.entr")


class Policy(nn.Module):
    def __init__(self, low):
        super().__init__()
        self.lin, self.low = nn.Linear(4, 5), low

    def forward(self, obs, allowed):
        return torch.log_softmax(self.lin(obs).masked_fill(~allowed, self.low), -1)


def build(fixed=False):
    g = torch.Generator().manual_seed(24)
    torch.manual_seed(24)
    m = Policy(torch.finfo(torch.float32).min if fixed else float("-inf"))
    allowed = torch.rand(7, 5, generator=g) < 0.6
    allowed[:, 2] = True
    return dict(model=m, loss_fn=lambda lp, y: -lp[:, 2].mean() + 0.01 * (lp.exp() * lp).sum(-1).mean(),
                optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=[((torch.randn(7, 4, generator=g), allowed), torch.zeros(7))], steps=2)
