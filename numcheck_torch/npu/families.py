# SPDX-License-Identifier: Apache-2.0
"""What the operators under ``npu::`` do to values."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numcheck.record.site import Effect, Family

__all__ = ["classify_npu"]

# The first word that a name starts with or holds decides, so the order matters:
# a fused operator is what its last step is.
_BY_WORD: Final[tuple[tuple[str, Family], ...]] = (
    ("float_status", ""),
    ("cross_entropy", "loss"),
    ("masked_softmax", "softmax"),
    ("softmax_with_rel_pos", "softmax"),
    ("dropout_with_add_softmax", "softmax"),
    ("attn_softmax", "softmax"),
    ("moe_gating_top_k", "softmax"),
    ("lightning_indexer", "attention"),
    ("attention", "attention"),
    ("ring_mla", "attention"),
    ("delta_rule", "attention"),
    ("rms_norm", "normalisation"),
    ("rmsnorm", "normalisation"),
    ("layer_norm", "normalisation"),
    ("layernorm", "normalisation"),
    ("group_norm", "normalisation"),
    ("normalize_batch", "normalisation"),
    ("deep_norm", "normalisation"),
    ("renorm", "norm"),
    ("binary_cross_entropy", "loss"),
    ("apply_adam", "optimizer"),
    ("all_reduce", "collective"),
    ("reduce_scatter", "collective"),
    ("all_gather", "collective"),
    ("all_to_all", "collective"),
    ("alltoallv", "collective"),
    ("broadcast", "collective"),
    ("moe_distribute", "collective"),
    ("matmul", "matmul"),
    ("linear", "matmul"),
    ("gmm", "matmul"),
    ("_mm", "matmul"),
    ("bmm", "matmul"),
    ("ffn", "matmul"),
    ("lstm", "matmul"),
    ("gru", "matmul"),
    ("conv", "conv"),
    ("swiglu", "mul"),
    ("geglu", "mul"),
    ("gelu", "sigmoid"),
    ("silu", "sigmoid"),
    ("mish", "sigmoid"),
    ("rotary", "mul"),
    ("rope", "mul"),
    ("dropout", "mul"),
    ("dtype_cast", "cast"),
    ("quant", "cast"),
    ("one_hot", "fill"),
    ("masked_fill", "select"),
    ("moe_token", "gather"),
    ("moe_init_routing", "gather"),
    ("gather", "gather"),
    ("indexing", "gather"),
    ("scatter", "scatter"),
    ("index_add", "scatter"),
)
_MOVES: Final = (
    "format_cast", "transpose", "reshape", "slice", "view_copy", "stride_copy", "pad",
    "broadcast", "confusion_transpose", "gather", "indexing", "scatter", "masked_fill",
    "moe_token_permute",
)  # fmt: skip


@functools.cache
def classify_npu(name: str) -> tuple[Family, Effect]:
    """Return the family and the effect of an operator of the ``npu`` namespace.

    Args:
        name: the operator without namespace and overload.

    Example:
        >>> classify_npu("npu_fusion_attention_v3"), classify_npu("npu_format_cast")
        (('attention', 'compute'), ('', 'move'))
    """
    plain = name.strip("_").removeprefix("npu_").removesuffix("_functional")
    found = (family for word, family in _BY_WORD if word in f"_{plain}")
    family: Family = next(found, "")
    if family == "cast":
        return "cast", "cast"
    if family == "fill":
        return "fill", "fill"
    if plain.startswith(_MOVES) and family in ("", "gather", "scatter", "select"):
        return family, "move"
    return family, "compute"
