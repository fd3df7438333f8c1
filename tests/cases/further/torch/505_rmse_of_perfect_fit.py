"""RMSE loss on a batch that the model already predicts exactly."""
import torch
from torch import nn

NAME, FRAMEWORK = "rmse_of_perfect_fit", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="backward", cls="op-domain", cause="sqrt-grad-zero", kind="+inf", step=1,
                harm="grad", note="1 / (2 sqrt(0)) times a zero error", fix="sqrt(mse + eps)")


def build(fixed=False):
    torch.manual_seed(5)
    m = nn.Linear(3, 1)
    with torch.no_grad():
        m.weight.zero_(), m.bias.zero_()
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(5))
    x[:, 0] = 1

    def rmse(out, y):
        return torch.sqrt(nn.functional.mse_loss(out, y) + (1e-8 if fixed else 0.0))

    quiet = torch.zeros(6, 3)
    return dict(model=m, loss_fn=rmse, optimizer=torch.optim.SGD([m.weight], lr=0.01),
                batches=[(x, torch.ones(6, 1)), (quiet, torch.zeros(6, 1))], steps=2)
