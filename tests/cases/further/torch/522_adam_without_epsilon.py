"""Adam with eps=0 and a weight that never gets a gradient."""
import torch
from torch import nn

NAME, FRAMEWORK = "adam_without_epsilon", "torch"
EXPECTED = dict(first_bad_op=("aten.addcdiv_.default", "aten._foreach_addcdiv_.Scalar", "aten._foreach_addcdiv_.ScalarList"), phase="optimizer", cls="op-domain", cause="zero-over-zero", kind="nan",
                step=0, harm="param", note="0 / (sqrt(0) + 0)", fix="eps=1e-8")


def build(fixed=False):
    torch.manual_seed(22)
    m = nn.Linear(3, 1)
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(22))
    x[:, 1] = 0                                 # this feature never fires
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3, eps=1e-8 if fixed else 0.0),
                batches=[(x, x[:, :1])], steps=2)
