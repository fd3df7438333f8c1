"""Missing readings are stored as 1e25; one such row in a later batch."""
import torch
from torch import nn

NAME, FRAMEWORK = "missing_value_sentinel", "torch"
EXPECTED = dict(first_bad_op=("aten.mse_loss.default",), phase="forward", cls="data", cause="sentinel", kind="+inf", step=2, harm="loss",
                row=5, note="1e25 passes the model and its square leaves float32", fix="impute missing readings")


def build(fixed=False):
    g = torch.Generator().manual_seed(8)
    torch.manual_seed(8)
    m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    batches = []
    for i in range(4):
        x = torch.randn(10, 4, generator=g)
        y = x.sum(1, keepdim=True)
        if i == 2 and not fixed:
            x[5, 1] = 1e25
        batches.append((x, y))
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=1e-2), batches=batches, steps=4)
