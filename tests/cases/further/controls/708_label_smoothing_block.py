"""bfloat16 transformer block with dropout, label smoothing and padding labels."""
import torch
from torch import nn

NAME, FRAMEWORK = "label_smoothing_block", "torch"
EXPECTED = dict(control=True, note="ordinary mixed-precision training")


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, 20)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.out(self.block(self.emb(ids), src_mask=mask, is_causal=True))


def build(fixed=False):
    torch.manual_seed(8)
    g = torch.Generator().manual_seed(8)
    m = LM()
    ids = torch.randint(0, 20, (4, 9), generator=g)
    y = ids[:, 1:].clone()
    y[:, -2:] = -100
    return dict(model=m, loss_fn=lambda z, y: nn.functional.cross_entropy(z.flatten(0, 1), y.flatten(), ignore_index=-100, label_smoothing=0.1),
                optimizer=torch.optim.AdamW(m.parameters(), lr=1e-3), batches=[(ids[:, :-1], y)], steps=4, clip_grad_norm=1.0,
                autocast=dict(device_type="cpu", dtype=torch.bfloat16))
