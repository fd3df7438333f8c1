# SPDX-License-Identifier: Apache-2.0
"""What each primitive does to values, in the core's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jax.extend.core import JaxprEqn

    from numcheck.record.site import Effect, Family

__all__ = ["effect_of", "family_of"]

_FAMILIES: Final[dict[Family, str]] = {
    "add": "add add_any",
    "sub": "sub",
    "mul": "mul",
    "div": "div rem",
    "pow": "pow integer_pow",
    "square": "square",
    "sqrt": "sqrt cbrt",
    "rsqrt": "rsqrt",
    "exp": "exp exp2 expm1 sinh cosh",
    "log": "log log1p lgamma digamma",
    "trigonometric": "sin cos tan asinh atan atan2 tanh erf erfc",
    "inverse_bounded": "acos asin atanh acosh erf_inv",
    "sigmoid": "logistic",
    "matmul": "dot_general ragged_dot ragged_dot_general scaled_dot",
    "conv": "conv_general_dilated",
    "sum": "reduce_sum reduce_window_sum",
    "product": "reduce_prod cumprod",
    "cumulative": "cumsum cummax cummin",
    "logsumexp": "cumlogsumexp",
    "decomposition": "cholesky cholesky_update lu qr svd eig eigh schur "
    "householder_product hessenberg tridiagonal geqrf geqp3",
    "solve": "triangular_solve tridiagonal_solve linear_solve custom_linear_solve",
    "select": "select_n select_and_gather_add clamp max min reduce_max reduce_min "
    "argmax argmin sort top_k approx_top_k reduce_window_max reduce_window_min",
    "gather": "gather dynamic_slice slice take",
    "scatter": "scatter scatter_add scatter-add scatter_mul scatter-mul scatter_max "
    "scatter_min scatter_sub scatter-sub dynamic_update_slice "
    "select_and_scatter select_and_scatter_add",
    "compare": "eq ne lt le gt ge eq_to le_to lt_to is_finite sign",
    "cast": "convert_element_type reduce_precision",
    "fill": "iota empty empty2 full",
    "random": "random_bits random_seed random_split random_fold_in random_wrap "
    "random_unwrap threefry2x32 rng_bit_generator rng_uniform random_gamma "
    "random_gamma_grad random_clone",
    "collective": "psum psum2 psum_invariant pmax pmin all_gather all_gather_invariant "
    "all_to_all reduce_scatter psum_scatter ppermute pgather ragged_all_to_all",
    "loop": "scan while",
    "call": "pallas_call pure_callback io_callback ffi_call custom_partitioning "
    "call cond",
}
_FAMILY_OF: Final[dict[str, Family]] = {
    name: family for family, names in _FAMILIES.items() for name in names.split()
}
_MOVING: Final = """
    reshape transpose broadcast_in_dim squeeze expand_dims slice dynamic_slice
    concatenate stack unstack pad rev copy copy_p select_n neg abs max min
    reduce_max reduce_min sign stop_gradient clamp sort argmax argmin top_k
    approx_top_k device_put sharding_constraint mesh_cast reshard
    optimization_barrier name real imag dynamic_update_slice scatter
    bitcast_convert_type cummax cummin split reduce_window_max reduce_window_min
    pvary pcast scan all_gather all_gather_invariant all_to_all ppermute pmax pmin
    tile get swap layout_constraint scatter_max scatter_min select_and_gather_add
    copy_to_host_async to_edtype conj take while cond ref_get ref_swap freeze
    new_ref check_numerics check_numerics_tangent
"""
_MOVES: Final = frozenset(_MOVING.split())


def family_of(name: str) -> Family:
    """Return the framework-neutral kind of a primitive; empty when none fits.

    Example:
        >>> family_of("dot_general"), family_of("pallas_call"), family_of("bessel_i0e")
        ('matmul', 'call', '')
    """
    return _FAMILY_OF.get(name, "")


def effect_of(eqn: JaxprEqn, *, reads_arrays: bool) -> Effect:
    """Return what an equation does to values.

    Args:
        eqn: the equation.
        reads_arrays: False when all its operands are constants written in the
            program, whose broadcast is a fill.
    """
    name = eqn.primitive.name
    if name in ("convert_element_type", "reduce_precision"):
        return "cast"
    if name in ("iota", "empty", "empty2", "full"):
        return "fill"
    if name in _MOVES:
        return "move" if reads_arrays else "fill"
    if name == "gather":
        # In fill mode an index outside the array writes NaN.
        return "compute" if "FILL" in str(eqn.params.get("mode")).upper() else "move"
    return "compute"
