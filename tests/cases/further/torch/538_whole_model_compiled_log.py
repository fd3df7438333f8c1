"""A compiled model takes the log of a probability product that underflows."""
import torch
from torch import nn

NAME, FRAMEWORK = "whole_model_compiled_log", "torch"
EXPECTED = dict(first_bad_op=("aten.log.default",), phase="forward", cls="op-domain", cause="log-zero", kind="-inf", step=0, harm="loss",
                note="the product of 200 probabilities is 0 in float32", fix="sum the logs")


class Joint(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(3, 1), fixed

    def forward(self, x):
        z = self.lin(x).squeeze(-1)
        return nn.functional.logsigmoid(z).sum(-1) if self.fixed else torch.sigmoid(z).prod(-1).log()


def build(fixed=False):
    torch.manual_seed(38)
    m = Joint(fixed)
    x = torch.randn(4, 400, 3, generator=torch.Generator().manual_seed(38))
    return dict(model=m, loss_fn=lambda o, y: -o.mean(), optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[(x, x)], steps=2,
                compile=dict(backend="aot_eager"))
