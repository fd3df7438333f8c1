"""One infinite gradient element and clip_grad_norm_: the clip coefficient 1 / inf = 0 turns it into NaN."""
import torch
from torch import nn

NAME, FRAMEWORK = "clipping_spreads_nan", "torch"
EXPECTED = dict(first_bad_op=("aten.pow.Tensor_Scalar",), phase="backward", cls="op-domain", cause="pow-fraction-zero", kind="+inf", step=0, harm="grad",
                note="|x|^0.5 at 0 has slope inf; 0 * inf follows in the clipping", fix="add eps before the power")


class Net(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.gain, self.lin, self.eps = nn.Parameter(torch.tensor([0.0, 1.0, 2.0])), nn.Linear(3, 1), eps

    def forward(self, x):
        return self.lin(x * (self.gain.clamp(min=0) + self.eps).pow(0.5))


def build(fixed=False):
    torch.manual_seed(41)
    m = Net(1e-4 if fixed else 0.0)
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(41))
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=[(x, x[:, :1])], steps=2,
                clip_grad_norm=1.0)
