"""A float16 softmax by hand whose sum overflows: every share is x / inf = 0, and the logarithm of it -inf."""
import torch
from torch import nn

NAME, FRAMEWORK = "half_shares_then_log", "torch"
EXPECTED = dict(first_bad_op=("aten.sum.dim_IntList",), phase="forward", cls="precision", cause="fp16-sum-overflow", kind="+inf", step=0, harm="loss",
                note="the logarithm only meets what the overflow left; in float32 the shares are near 1 / 32", fix="log_softmax")


class Head(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin, self.fixed = nn.Linear(8, 32).half(), fixed
        with torch.no_grad():
            self.lin.bias.fill_(10.0)

    def forward(self, x):
        z = self.lin(x)
        if self.fixed:
            return torch.log_softmax(z, -1)
        e = z.exp()
        shares = e / e.sum(-1, keepdim=True)
        return shares.log()


def build(fixed=False):
    torch.manual_seed(57)
    m = Head(fixed)
    x, y = 0.1 * torch.randn(8, 8).half(), torch.randint(0, 32, (8,))
    return dict(model=m, loss_fn=lambda out, y: nn.functional.nll_loss(out.float(), y), optimizer=torch.optim.SGD(m.parameters(), lr=1e-3),
                batches=[(x, y)], steps=2)
