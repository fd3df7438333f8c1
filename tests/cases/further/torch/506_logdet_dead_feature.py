"""Gaussian entropy logdet(cov) of features one of which never fires."""
import torch
from torch import nn

NAME, FRAMEWORK = "logdet_dead_feature", "torch"
EXPECTED = dict(first_bad_op=("aten._linalg_slogdet.default", "aten.log.default", "aten.linalg_slogdet.default"), phase="forward", cls="op-domain",
                cause="log-zero", kind="-inf", step=0, harm="loss", note="a relu unit that never fires makes the covariance exactly singular",
                fix="add a ridge to the covariance")


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)
        with torch.no_grad():
            self.lin.bias.copy_(torch.tensor([0.0, 0.0, -50.0]))

    def forward(self, x):
        return torch.relu(self.lin(x))


def build(fixed=False):
    torch.manual_seed(6)
    m = Features()
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(6))

    def entropy(h, y):
        cov = torch.cov(h.T) + (1e-3 * torch.eye(3) if fixed else 0.0)
        return -0.5 * torch.logdet(cov)

    return dict(model=m, loss_fn=entropy, optimizer=torch.optim.SGD(m.parameters(), lr=1e-4), batches=[(x, x)], steps=2)
