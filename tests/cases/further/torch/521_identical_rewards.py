"""Advantages normalised within a group; all rewards of one group are equal."""
import torch
from torch import nn

NAME, FRAMEWORK = "identical_rewards", "torch"
EXPECTED = dict(first_bad_op=("aten.div.Tensor",), phase="forward", cls="data", cause="zero-spread", kind="nan", step=1, harm="loss", row=1,
                note="(r - mean) / std is 0/0", fix="std + eps")


def build(fixed=False):
    g = torch.Generator().manual_seed(21)
    torch.manual_seed(21)
    m = nn.Linear(4, 6)

    def policy_loss(z, batch):
        action, reward = batch
        adv = (reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + (1e-4 if fixed else 0.0))
        logp = torch.log_softmax(z, -1).gather(-1, action[..., None])[..., 0]
        return -(adv * logp).mean()

    batches = []
    for i in range(3):
        reward = torch.randint(0, 2, (2, 5), generator=g).float()
        reward[:, 0], reward[:, 1] = 0.0, 1.0
        if i == 1:
            reward[1] = 1.0
        batches.append((torch.randn(2, 5, 4, generator=g), (torch.randint(0, 6, (2, 5), generator=g), reward)))
    return dict(model=m, loss_fn=policy_loss, optimizer=torch.optim.Adam(m.parameters(), lr=1e-3), batches=batches, steps=3)
