"""WGAN gradient penalty (||grad|| - 1)^2 with a hand-written norm and a critic that is flat."""
import torch
from torch import nn

NAME, FRAMEWORK = "gradient_penalty_zero", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="backward", cls="op-domain", cause="sqrt-grad-zero", kind="inf", step=0, harm="grad",
                note="dead relu units give a zero input gradient; sqrt's slope there is infinite", fix="sqrt(sum + 1e-12)")


class Critic(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.net, self.fixed = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), fixed

    def forward(self, x):
        x = x.requires_grad_()
        score = self.net(x)
        (g,) = torch.autograd.grad(score.sum(), x, create_graph=True)
        return score, (g.pow(2).sum(-1) + (1e-12 if self.fixed else 0.0)).sqrt()


def build(fixed=False):
    torch.manual_seed(29)
    m = Critic(fixed)
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(29))
    x[2] = 0
    with torch.no_grad():
        m.net[0].bias.copy_(torch.tensor([-0.1, -0.2, -0.1, -0.3]))     # nothing fires at x = 0
    return dict(model=m, loss_fn=lambda o, y: o[0].mean() + ((o[1] - 1) ** 2).mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-3),
                batches=[(x, x)], steps=1)
