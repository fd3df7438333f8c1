"""Feature hashing with int64 multiplication that wraps around on purpose."""
import torch
from torch import nn

NAME, FRAMEWORK = "hash_wraps_on_purpose", "torch"
EXPECTED = dict(control=True, note="negative products are folded back by remainder")


class Hashed(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.out = nn.Embedding(17, 4), nn.Linear(4, 1)

    def forward(self, ids):
        bucket = torch.remainder(ids * 6364136223846793005 + 1442695040888963407, 17)
        return self.out(self.emb(bucket).mean(1))


def build(fixed=False):
    torch.manual_seed(9)
    m = Hashed()
    ids = torch.randint(0, 10**9, (8, 5), generator=torch.Generator().manual_seed(9))
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.Adam(m.parameters(), lr=1e-2),
                batches=[(ids, torch.ones(8, 1))], steps=3)
