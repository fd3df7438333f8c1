"""Focal loss with gamma 0.5: the derivative of (1 - p)^0.5 at p = 1 is infinite."""
import torch
from torch import nn

NAME, FRAMEWORK = "focal_fractional_gamma", "torch"
EXPECTED = dict(first_bad_op=("aten.pow.Tensor_Scalar",), phase="backward", cls="op-domain", cause="pow-fraction-zero", kind="+inf", step=0,
                harm="grad", note="a confident sample has p exactly 1; the forward pass is fine", fix="clamp 1 - p from below")


def build(fixed=False):
    g = torch.Generator().manual_seed(7)
    torch.manual_seed(7)
    m = nn.Linear(4, 3)
    x, y = torch.randn(12, 4, generator=g), torch.randint(0, 3, (12,), generator=g)
    with torch.no_grad():
        m.weight[y[3]] += 30 * x[3]             # the model is certain of sample 3

    def focal(z, y):
        logp = torch.log_softmax(z, -1).gather(1, y[:, None])
        rest = 1 - logp.exp()
        return -(rest.clamp(min=1e-6) if fixed else rest).pow(0.5).mul(logp).mean()

    return dict(model=m, loss_fn=focal, optimizer=torch.optim.SGD(m.parameters(), lr=1e-3), batches=[(x, y)], steps=1)
