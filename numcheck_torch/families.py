# SPDX-License-Identifier: Apache-2.0
"""What kind of operator an ATen name is: its `Family` and its `Effect`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from numcheck_torch.npu.families import classify_npu

if TYPE_CHECKING:
    from numcheck.record.site import Effect, Family

__all__ = ["classify", "is_overwriting"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FAMILIES: Final[dict[Family, str]] = {
    "add": "add addr logaddexp logaddexp2 cumadd",
    "sub": "sub rsub subtract",
    "mul": "mul multiply native_dropout dot outer cross addcmul ldexp lerp kron",
    "div": "div divide true_divide floor_divide remainder fmod addcdiv",
    "pow": "pow float_power",
    "square": "square",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "exp": "exp exp2 expm1 sinh cosh softplus",
    "log": "log log2 log10 log1p xlogy special_xlog1py lgamma digamma logit "
    "log_sigmoid_forward log_sigmoid special_entr",
    "trigonometric": "sin cos tan sinc atan atan2 arctan2 asinh",
    "inverse_bounded": "asin acos atanh acosh erfinv special_ndtri",
    "sigmoid": "sigmoid tanh hardsigmoid hardswish silu gelu mish erf elu celu selu "
    "hardtanh glu",
    "matmul": "mm bmm addmm baddbmm addbmm addmv mv matmul linear einsum _scaled_mm "
    "_addmm_activation vdot _int_mm _grouped_mm",
    "conv": "convolution _convolution convolution_overrideable mkldnn_convolution "
    "cudnn_convolution conv_tbc thnn_conv2d slow_conv3d mkldnn_rnn_layer "
    "_thnn_fused_lstm_cell _thnn_fused_gru_cell _cudnn_rnn",
    "sum": "sum nansum trace",
    "mean": "mean nanmean avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d "
    "_adaptive_avg_pool3d adaptive_avg_pool1d",
    "product": "prod",
    "cumulative": "cumsum cumprod logcumsumexp cummax cummin",
    "norm": "norm linalg_vector_norm _foreach_norm linalg_matrix_norm renorm dist "
    "_cdist_forward _cdist _pdist_forward _weight_norm _weight_norm_interface",
    "variance": "var std var_mean std_mean var_correction",
    "softmax": "_softmax softmax _safe_softmax _masked_softmax",
    "log_softmax": "_log_softmax log_softmax",
    "logsumexp": "logsumexp",
    "attention": "_scaled_dot_product_flash_attention "
    "_scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
    "_scaled_dot_product_attention_math "
    "_scaled_dot_product_fused_attention_overrideable _flash_attention_forward "
    "_efficient_attention_forward scaled_dot_product_attention "
    "_native_multi_head_attention _transformer_encoder_layer_fwd",
    "normalisation": "native_layer_norm native_group_norm native_batch_norm "
    "_native_batch_norm_legit _native_batch_norm_legit_no_training "
    "_native_batch_norm_legit_functional _batch_norm_with_update_functional "
    "_batch_norm_with_update _batch_norm_no_update cudnn_batch_norm "
    "_fused_rms_norm rms_norm layer_norm batch_norm instance_norm "
    "batch_norm_stats batch_norm_elemt",
    "loss": "nll_loss_forward nll_loss2d_forward mse_loss smooth_l1_loss huber_loss "
    "binary_cross_entropy binary_cross_entropy_with_logits kl_div _ctc_loss "
    "soft_margin_loss multi_margin_loss multilabel_margin_loss_forward "
    "_cudnn_ctc_loss cross_entropy_loss nll_loss",
    "decomposition": "_linalg_svd linalg_qr _linalg_eigh linalg_eig linalg_lu "
    "linalg_lu_factor_ex linalg_cholesky_ex cholesky geqrf linalg_ldl_factor_ex",
    "solve": "linalg_solve _linalg_solve_ex linalg_inv_ex linalg_solve_triangular "
    "triangular_solve cholesky_solve cholesky_inverse linalg_lu_solve linalg_lstsq "
    "_linalg_det linalg_pinv _linalg_slogdet linalg_matrix_exp",
    "select": "where masked_fill clamp clamp_min clamp_max max min amax amin aminmax "
    "maximum minimum fmax fmin relu relu6 leaky_relu threshold topk sort kthvalue "
    "median nanmedian mode nan_to_num abs sign argmax argmin _prelu_kernel "
    "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d hardshrink "
    "softshrink tril triu",
    "gather": "gather index index_select embedding take masked_select _embedding_bag "
    "grid_sampler_2d upsample_nearest2d upsample_bilinear2d",
    "scatter": "scatter scatter_add scatter_reduce index_add index_put _index_put_impl "
    "_unsafe_index_put index_copy index_fill masked_scatter put slice_scatter "
    "select_scatter diagonal_scatter as_strided_scatter embedding_dense col2im "
    "index_reduce",
    "compare": "eq ne lt le gt ge isnan isinf isfinite isposinf isneginf logical_and "
    "logical_or logical_not logical_xor equal allclose any all bitwise_and bitwise_or "
    "bitwise_not bitwise_xor is_nonzero signbit nonzero",
    "cast": "_to_copy to _cast_Float _cast_Half _cast_Double convert_element_type",
    "fill": "full full_like new_full zeros zeros_like new_zeros ones ones_like "
    "new_ones zero fill scalar_tensor arange linspace logspace eye lift_fresh_copy "
    "_efficientzerotensor tril_indices triu_indices",
    "random": "rand rand_like randn randn_like randint randint_like randperm normal "
    "uniform bernoulli exponential cauchy log_normal geometric random multinomial "
    "poisson rrelu_with_noise _standard_gamma _sample_dirichlet binomial",
    "collective": "all_reduce all_gather all_gather_into_tensor reduce_scatter "
    "reduce_scatter_tensor broadcast all_to_all_single wait_tensor allreduce_ "
    "allgather_ _allgather_base_ _reduce_scatter_base_ reduce_scatter_ broadcast_ "
    "alltoall_ alltoall_base_ reduce_ gather_ scatter_ send recv_",
}  # fmt: skip

_MOVES: Final = _words(
    """
    view _unsafe_view reshape _reshape_alias _reshape_copy t transpose permute expand
    unsqueeze squeeze slice select split split_with_sizes unbind chunk narrow diagonal
    diag_embed unfold movedim swapaxes flatten unflatten as_strided detach alias clone
    contiguous lift lift_fresh cat stack concat hstack vstack roll flip rot90 repeat
    tile constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d pixel_shuffle
    pixel_unshuffle channel_shuffle im2col copy set resize gather index index_select
    embedding take masked_select topk sort kthvalue median nanmedian mode where
    masked_fill max min amax amin aminmax maximum minimum fmax fmin tril triu
    max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d
    upsample_nearest2d scatter index_copy index_fill masked_scatter slice_scatter
    select_scatter diagonal_scatter
    as_strided_scatter real imag view_as_real view_as_complex conj _conj _neg_view
    resolve_conj resolve_neg squeeze_copy broadcast_to expand_as item
    _local_scalar_dense narrow_copy unsafe_split unsafe_split_with_sizes unsafe_chunk
    slice_backward select_backward value_selecting_reduction_backward
    max_pool2d_with_indices_backward unfold_backward diagonal_backward
    constant_pad_nd_backward split_backward unbind_backward wait_tensor broadcast
    all_gather_into_tensor all_gather all_to_all_single
    """
)
_UNINITIALISED: Final = _words(
    "empty empty_like empty_strided new_empty new_empty_strided empty_permuted "
    "empty_quantized"
)
_OVERWRITING: Final = _words(
    "copy fill zero normal uniform bernoulli exponential cauchy log_normal geometric "
    "random set"
)
_BY_NAME: Final[dict[str, Family]] = {
    name: family for family, names in _FAMILIES.items() for name in _words(names)
}
_COLLECTIVES: Final = ("c10d", "_c10d_functional", "_c10d_functional_autograd")


@functools.cache
def classify(namespace: str, name: str) -> tuple[Family, Effect]:
    """Return the family and the effect of an operator.

    Args:
        namespace: ``aten``, ``prims``, ``c10d``…
        name: the operator without overload, e.g. ``add_``, ``_foreach_sqrt``,
            ``_softmax_backward_data``.

    Example:
        >>> classify("aten", "log_"), classify("aten", "empty_like")
        (('log', 'compute'), ('', 'uninitialised'))
    """
    if namespace in _COLLECTIVES:
        return "collective", "move" if _stem(name) in _MOVES else "compute"
    if namespace == "npu":
        return classify_npu(name)
    if name.startswith(("_fused_adam", "_fused_sgd", "_fused_adagrad")):
        return "optimizer", "compute"
    stem = _stem(name)
    effect = _effect(stem)
    family = _BY_NAME.get(stem) or _BY_NAME.get(_without_backward(stem), "")
    if family == "cast":
        effect = "cast"
    elif family in ("fill", "random"):
        effect = "fill"
    return family, effect


@functools.cache
def is_overwriting(name: str) -> bool:
    """Whether an in-place operator pays no regard to what was there before.

    Example:
        >>> is_overwriting("copy_"), is_overwriting("add_")
        (True, False)
    """
    return _stem(name) in _OVERWRITING


def _stem(name: str) -> str:
    stem = name.removeprefix("_foreach_")
    if stem in _BY_NAME or stem in _MOVES or stem in _UNINITIALISED:
        return stem
    return stem[:-1] if stem.endswith("_") and len(stem) > 1 else stem


def _effect(stem: str) -> Effect:
    if stem in _UNINITIALISED:
        return "uninitialised"
    return "move" if stem in _MOVES else "compute"


def _without_backward(stem: str) -> str:
    return stem.removesuffix("_data").removesuffix("_backward")
