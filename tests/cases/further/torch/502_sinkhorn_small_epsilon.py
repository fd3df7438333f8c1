"""Optimal transport by Sinkhorn iterations whose kernel exp(-cost / eps) is zero throughout."""
import torch
from torch import nn

NAME, FRAMEWORK = "sinkhorn_small_epsilon", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="forward", cls="op-domain", cause="kernel-underflow", kind="+inf", step=0,
                harm="loss", note="exp(-cost / 1e-3) underflows to 0, K @ v is 0 and its reciprocal infinite", fix="log-domain Sinkhorn, or a larger eps")


class Transport(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.emb, self.eps = nn.Linear(3, 3), eps

    def forward(self, x, y):
        cost = torch.cdist(self.emb(x), y) ** 2
        k, a = torch.exp(-cost / self.eps), torch.full((5,), 0.2)
        v = torch.ones(5)
        for _ in range(5):
            u = a / (k @ v)
            v = a / (k.T @ u)
        return (u[:, None] * k * v * cost).sum()


def build(fixed=False):
    g = torch.Generator().manual_seed(2)
    torch.manual_seed(2)
    m = Transport(1.0 if fixed else 1e-3)
    x, y = torch.randn(5, 3, generator=g), torch.randn(5, 3, generator=g) + 2
    return dict(model=m, loss_fn=lambda c, t: c, optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[((x, y), y)], steps=2)
