"""Multi-head attention over a sequence that is nothing but padding."""
import torch
from torch import nn

NAME, FRAMEWORK = "padding_only_sequence", "torch"
EXPECTED = dict(first_bad_op=("aten._softmax.default", "aten._safe_softmax.default"), phase="forward", cls="op-domain",
                cause="fully-masked-softmax", kind="nan", step=1, harm="loss", row=2,
                note="softmax over a row of -inf", fix="drop empty sequences, or leave one key visible")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.att = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, padding):
        return self.att(x, x, x, key_padding_mask=padding, need_weights=True)[0]


def build(fixed=False):
    g = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    m, batches = Encoder(), []
    for lengths in ((4, 2, 3), (4, 1, 1 if fixed else 0)):
        x = torch.randn(3, 4, 8, generator=g)
        batches.append(((x, torch.arange(4) >= torch.tensor(lengths)[:, None]), x))
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=batches, steps=2)
