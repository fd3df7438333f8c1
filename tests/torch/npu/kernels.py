# SPDX-License-Identifier: Apache-2.0
"""Two operators of the ``npu`` namespace, with the schemas of the real ones."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["fused_operators"]


HIDDEN = float("-inf")
"""What the kernel puts where the mask hides; some put a large number there."""


def fused_operators() -> torch.library.Library:
    """Return the library that defines them."""
    library = torch.library.Library("npu", "DEF")
    library.define(
        "npu_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, "
        "str input_layout, Tensor? pse=None, Tensor? padding_mask=None, "
        "Tensor? atten_mask=None, float scale=1., float keep_prob=1., "
        "int pre_tockens=2147483647, int next_tockens=2147483647, "
        "int inner_precise=0, int[]? prefix=None, int[]? actual_seq_qlen=None, "
        "int[]? actual_seq_kvlen=None, int sparse_mode=0) "
        "-> (Tensor, Tensor, Tensor, Tensor, int, int, int)"
    )
    library.define(
        "npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) "
        "-> (Tensor, Tensor)"
    )
    library.impl("npu_fusion_attention", _attention, "CompositeExplicitAutograd")
    torch.library.register_autograd(
        "npu::npu_fusion_attention", _attention_backward, setup_context=_keep
    )
    library.impl("npu_rms_norm", _rms_norm, "CompositeExplicitAutograd")
    return library


def _scores(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    scores = query @ key.transpose(-1, -2) * scale
    hidden = None if mask is None else mask.bool()
    return scores if hidden is None else scores.masked_fill(hidden, HIDDEN)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    head_num: int,
    input_layout: str,
    pse: Any = None,
    padding_mask: Any = None,
    atten_mask: torch.Tensor | None = None,
    scale: float = 1.0,
    *rest: Any,
) -> Any:
    scores = _scores(query, key, atten_mask, scale)
    out = torch.softmax(scores, -1) @ value
    most, total = scores.amax(-1), scores.exp().sum(-1)
    return out, most, total, torch.empty(0), 0, 0, 0


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], *([] if inputs[7] is None else [inputs[7]]))
    ctx.scale = inputs[8]


def _attention_backward(ctx: Any, gradient: torch.Tensor, *rest: Any) -> Any:
    query, key, value, *mask = ctx.saved_tensors
    share = torch.softmax(_scores(query, key, mask[0] if mask else None, ctx.scale), -1)
    of_share = gradient @ value.transpose(-1, -2)
    of_scores = share * (of_share - (of_share * share).sum(-1, keepdim=True))
    of_scores = of_scores * ctx.scale
    found = (
        of_scores @ key,
        of_scores.transpose(-1, -2) @ query,
        share.transpose(-1, -2) @ gradient,
    )
    return (*found, *([None] * 14))


def _rms_norm(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> Any:
    scale = x.float().square().mean(-1, keepdim=True).add(epsilon).rsqrt()
    return (x.float() * scale).to(x.dtype) * gamma, scale
