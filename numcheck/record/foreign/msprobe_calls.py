# SPDX-License-Identifier: Apache-2.0
"""What a function's or module's name in a dump says it does to values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from numcheck.record.site import Effect, Family

__all__ = ["classify", "has_parameters", "saves", "slope_family"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FAMILIES: Final[dict[Family, str]] = {
    "add": "add iadd radd addcmul dropout npu_add logaddexp",
    "sub": "sub isub rsub subtract",
    "mul": "mul imul rmul multiply npu_swiglu glu prelu",
    "div": "div truediv idiv itruediv rtruediv floordiv true_divide divide addcdiv",
    "pow": "pow ipow rpow float_power",
    "square": "square",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "exp": "exp expm1 exp2 softplus",
    "log": "log log2 log10 log1p logsigmoid logit",
    "trigonometric": "sin cos tan",
    "inverse_bounded": "asin acos atanh acosh erfinv",
    "sigmoid": "sigmoid tanh gelu silu mish elu selu hardsigmoid hardswish fast_gelu "
    "npu_silu npu_gelu swish",
    "matmul": "matmul imatmul mm bmm addmm addmv baddbmm einsum linear mv dot "
    "npu_linear npu_bmmv2 npu_grouped_matmul columnparallellinear rowparallellinear",
    "conv": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "convtranspose2d npu_conv2d",
    "sum": "sum nansum",
    "mean": "mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool2d avgpool2d",
    "product": "prod",
    "cumulative": "cumsum cumprod logcumsumexp",
    "norm": "norm vector_norm matrix_norm normalize",
    "variance": "var std var_mean std_mean",
    "softmax": "softmax npu_scaled_masked_softmax npu_confusion_transpose_softmax",
    "log_softmax": "log_softmax logsoftmax",
    "logsumexp": "logsumexp",
    "attention": "scaled_dot_product_attention npu_fusion_attention "
    "npu_fusion_attention_v2 npu_fusion_attention_v3 npu_flash_attention "
    "multi_head_attention_forward multiheadattention npu_prompt_flash_attention "
    "npu_incre_flash_attention flash_attention",
    "normalisation": "layer_norm layernorm batch_norm batchnorm1d batchnorm2d "
    "batchnorm3d group_norm groupnorm instance_norm rms_norm rmsnorm npu_rms_norm "
    "npu_add_rms_norm npu_layer_norm_eval fusedlayernorm",
    "loss": "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div "
    "binary_cross_entropy binary_cross_entropy_with_logits ctc_loss "
    "crossentropyloss mseloss bceloss bcewithlogitsloss npu_cross_entropy_loss",
    "decomposition": "svd qr eigh eig cholesky lu",
    "solve": "inverse inv solve det slogdet pinv",
    "select": "where masked_fill clamp clip max min maximum minimum relu relu6 topk "
    "sort leaky_relu abs sign max_pool2d maxpool2d nan_to_num tril triu threshold",
    "gather": "gather index_select getitem embedding vocabparallelembedding take",
    "scatter": "scatter scatter_add index_add index_put setitem index_copy "
    "masked_scatter",
    "compare": "eq ne lt le gt ge isnan isinf isfinite equal all any logical_and "
    "logical_or logical_not",
    "cast": "to half float bfloat16 double type type_as npu_dtype_cast",
    "fill": "full full_like zeros ones zeros_like ones_like fill zero new_zeros "
    "new_ones new_full",
    "random": "rand randn randint normal uniform bernoulli",
    "collective": "all_reduce all_gather reduce_scatter broadcast all_to_all send recv "
    "reduce all_gather_into_tensor reduce_scatter_tensor all_to_all_single isend irecv",
}
_BY_NAME: Final[dict[str, Family]] = {
    name: family for family, names in _FAMILIES.items() for name in names.split()
}
_MOVES: Final = _words(
    """
    view reshape permute transpose t contiguous squeeze unsqueeze expand repeat chunk
    split cat stack concat clone detach flatten roll flip pad narrow unbind unfold
    index_select getitem gather take embedding where masked_fill clamp clip max min
    maximum minimum topk sort relu relu6 max_pool2d maxpool2d tril triu scatter setitem
    index_copy masked_scatter npu_confusion_transpose npu_transpose identity
    broadcast all_gather all_to_all send recv
    """
)
# Functions whose later tensors are parameters: (input, weight, bias).
_PARAMETRIC: Final = _words(
    """
    linear npu_linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d layer_norm group_norm batch_norm instance_norm rms_norm
    npu_rms_norm npu_add_rms_norm embedding prelu
    """
)
_OF_ITS_RESULT: Final = _words(
    "exp sqrt rsqrt reciprocal sigmoid softmax log_softmax logsumexp norm"
)
_OF_NOTHING: Final = _words(
    "add sub sum mean cast fill random gather scatter collective compare"
)


def _stem(call: str) -> str:
    """Return a call's plain name: ``__imul__`` is ``imul``, ``mul_`` is ``mul``."""
    return call.rpartition(".")[2].strip("_").lower()


def classify(call: str) -> tuple[Family, Effect]:
    """Return the family and the effect of a function or a module's class.

    Example:
        >>> classify("__truediv__"), classify("masked_fill_"), classify("LayerNorm")
        (('div', 'compute'), ('select', 'move'), ('normalisation', 'compute'))
    """
    stem = _stem(call)
    family = _BY_NAME.get(stem, "")
    if family in ("fill", "cast"):
        return family, family
    return family, "move" if stem in _MOVES else "compute"


def has_parameters(call: str) -> bool:
    """Whether a function's second and later tensors are parameters."""
    return _stem(call) in _PARAMETRIC


def saves(call: str) -> Literal["inputs", "result", "both", "nothing"]:
    """Return what a function keeps of its forward run to compute its gradient."""
    family, effect = classify(call)
    if _stem(call) == "relu" or family in _OF_ITS_RESULT:
        return "result"
    if effect == "move" or family in _OF_NOTHING:
        return "nothing"
    return "both" if family in ("", "attention", "normalisation", "loss") else "inputs"


def slope_family(call: str) -> Family:
    """Return the family of a function's gradient: that of sqrt divides by sqrt."""
    family, _ = classify(call)
    return "div" if family in ("sqrt", "log", "norm", "div") else family
