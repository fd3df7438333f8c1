"""Multi-task labels with NaN for missing ones; the loss selects before it subtracts."""
import torch
from torch import nn

NAME, FRAMEWORK = "missing_task_labels", "torch"
EXPECTED = dict(control=True, data_nan_by_design=True, note="where() replaces missing labels by the prediction itself")


def masked(out, y):
    seen = ~torch.isnan(y)
    d = torch.where(seen, y, out.detach()) - out
    return (d ** 2).sum() / seen.sum().clamp(min=1)


def build(fixed=False):
    torch.manual_seed(12)
    g = torch.Generator().manual_seed(12)
    m = nn.Linear(5, 3)
    x, y = torch.randn(20, 5, generator=g), torch.randn(20, 3, generator=g)
    y[torch.rand(20, 3, generator=g) < 0.4] = float("nan")
    return dict(model=m, loss_fn=masked, optimizer=torch.optim.SGD(m.parameters(), lr=0.05), batches=[(x, y)], steps=4)
