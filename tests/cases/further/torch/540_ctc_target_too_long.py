"""CTC loss with a transcript longer than the audio."""
import torch
from torch import nn

NAME, FRAMEWORK = "ctc_target_too_long", "torch"
EXPECTED = dict(first_bad_op=("aten._ctc_loss.default", "aten._ctc_loss.Tensor"), phase="forward", cls="data", cause="target-too-long", kind="+inf", step=1,
                harm="loss", row=1, note="no alignment exists, its probability is 0", fix="zero_infinity=True, or filter such samples")


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 5)

    def forward(self, x):
        return torch.log_softmax(self.lin(x), -1)


def build(fixed=False):
    g = torch.Generator().manual_seed(40)
    torch.manual_seed(40)
    m = Speech()

    def ctc(logp, batch):
        y, n = batch
        return nn.functional.ctc_loss(logp, y, torch.full((2,), 6), n, zero_infinity=fixed)

    batches = [(torch.randn(6, 2, 3, generator=g), (torch.randint(1, 5, (2, 8), generator=g), torch.tensor([3, n]))) for n in (2, 8, 3)]
    return dict(model=m, loss_fn=ctc, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=batches, steps=3)
