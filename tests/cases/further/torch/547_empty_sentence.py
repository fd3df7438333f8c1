"""A sentence of padding alone is averaged over its zero words."""
import torch
from torch import nn
from torch.nn import functional as F

NAME, FRAMEWORK = "empty_sentence", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="forward", cls="data", cause="zero-count", kind="nan",
                step=1, harm="loss", row=4, fix="drop empty sentences, or clamp the count at 1")


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8, padding_idx=0)
        self.out = nn.Linear(8, 2)
    def forward(self, tokens):
        mask = (tokens != 0).float()
        pooled = (self.emb(tokens) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return self.out(pooled)

def build(fixed=False):
    torch.manual_seed(12)
    m = Pool()
    bs = [(torch.randint(1, 20, (6, 7)), torch.randint(0, 2, (6,))) for _ in range(3)]
    if not fixed: bs[1][0][4] = 0
    return dict(model=m, loss_fn=F.cross_entropy, optimizer=torch.optim.Adam(m.parameters(), lr=0.01), batches=bs, steps=3)
