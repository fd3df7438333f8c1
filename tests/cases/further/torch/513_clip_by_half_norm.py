"""Gradients clipped by a norm computed in float16: the norm is infinite, so every gradient becomes zero."""
import torch
from torch import nn

NAME, FRAMEWORK = "clip_by_half_norm", "torch"
EXPECTED = dict(first_bad_op=("aten._foreach_norm.Scalar", "aten.linalg_vector_norm.default"), phase="optimizer", cls="precision",
                cause="fp16-norm-overflow", kind="+inf", step=0, harm="silent",
                note="each gradient is about 2e4 and finite, their length over 64 elements is 1e5; max_norm / inf = 0", fix="float32 gradients, or a smaller loss")


def build(fixed=False):
    m = nn.Linear(64, 1, bias=False).half()
    x = (torch.rand(4, 64, generator=torch.Generator().manual_seed(13)) * 100 + 100).half()
    weight = 0.01 if fixed else 200.0
    return dict(model=m, loss_fn=lambda o, y: o.float().mean() * weight, optimizer=torch.optim.SGD(m.parameters(), lr=1e-2),
                batches=[(x, x)], steps=2, clip_grad_norm=1.0)
