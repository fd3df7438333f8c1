"""Forward recursion of an HMM by logsumexp with a state nobody can reach."""
import torch
from torch import nn

NAME, FRAMEWORK = "hmm_unreachable_state", "torch"
EXPECTED = dict(first_bad_op=("aten.sub.Tensor",), phase="backward", cls="op-domain", cause="logsumexp-all-neginf", kind="nan", step=0, harm="grad",
                note="exp(-inf - (-inf)) in logsumexp's backward; the loss is finite", fix="a finite floor such as -1e30")


class HMM(nn.Module):
    def __init__(self, low):
        super().__init__()
        self.emit, self.raw, self.low = nn.Linear(2, 3), nn.Parameter(torch.zeros(3, 3)), low

    def forward(self, obs):
        e = self.emit(obs)
        unreachable = torch.tensor([False, False, True])
        a = torch.log_softmax(self.raw, -1).masked_fill(unreachable, self.low)
        alpha = e[0].masked_fill(unreachable, self.low)
        for t in range(1, obs.shape[0]):
            alpha = torch.logsumexp(alpha[:, None] + a, 0) + e[t]
        return torch.logsumexp(alpha, 0)


def build(fixed=False):
    torch.manual_seed(30)
    m = HMM(-1e30 if fixed else float("-inf"))
    obs = torch.randn(5, 2, generator=torch.Generator().manual_seed(30))
    return dict(model=m, loss_fn=lambda s, y: -s, optimizer=torch.optim.SGD(m.parameters(), lr=0.01), batches=[(obs, obs)], steps=2)
