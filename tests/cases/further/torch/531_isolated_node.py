"""Graph convolution with D^-1/2: an isolated node has degree 0."""
import torch
from torch import nn

NAME, FRAMEWORK = "isolated_node", "torch"
EXPECTED = dict(first_bad_op=("aten.pow.Tensor_Scalar",), phase="forward", cls="data", cause="zero-count", kind="+inf", step=1, harm="loss",
                note="0^-0.5 = inf, times the zero row of the adjacency gives NaN", fix="add self loops, or deg.clamp(min=1)")


class GCN(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(3, 2), fixed

    def forward(self, x, adj):
        deg = adj.sum(-1)
        d = (deg.clamp(min=1) if self.fixed else deg).pow(-0.5)
        return (d[:, None] * adj * d) @ self.lin(x)


def build(fixed=False):
    g = torch.Generator().manual_seed(31)
    torch.manual_seed(31)
    m, batches = GCN(fixed), []
    for i in range(3):
        adj = torch.ones(5, 5) - torch.eye(5)
        if i == 1:
            adj[3], adj[:, 3] = 0, 0
        batches.append(((torch.randn(5, 3, generator=g), adj), torch.randint(0, 2, (5,), generator=g)))
    return dict(model=m, loss_fn=nn.functional.cross_entropy, optimizer=torch.optim.Adam(m.parameters(), lr=1e-2), batches=batches, steps=3)
