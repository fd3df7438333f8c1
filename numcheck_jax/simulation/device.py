# SPDX-License-Identifier: Apache-2.0
"""One operator of a device: an equation, its roundings included, under its own name.

Whoever reads a simulated program sees one operator where the device has one, with the
result that the device gives, as if the program had been traced on it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from numcheck.formats import get
from numcheck_jax.columns import is_float
from numcheck_jax.simulation.products import PRODUCTS, bound, computed
from numcheck_jax.simulation.rounding import round_to
from numcheck_jax.simulation.sums import total_over

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.extend.core import JaxprEqn

    from numcheck.simulation import Arithmetic

__all__ = ["run_on_device"]


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class _Device:
    """How a device computes one equation.

    Attributes:
        primitive: of the equation.
        arithmetic: what the device does.
        is_backward: whether the equation belongs to a backward pass.
        dtypes: what its operands were when the program was traced.
    """

    primitive: Any
    arithmetic: Arithmetic
    is_backward: bool
    dtypes: tuple[Any, ...]

    def __call__(self, values: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """Return the outputs of the equation."""
        if _dtypes(values) != self.dtypes:
            # The program runs in wider dtypes, to be compared with: no device does.
            return bound(self.primitive, values, params)
        if self.primitive.name in PRODUCTS and self.arithmetic.rounds_factors:
            found = computed(
                self.primitive,
                values,
                params,
                self.arithmetic,
                is_backward=self.is_backward,
            )
        elif self.primitive.name == "reduce_sum" and self.arithmetic.accumulator:
            total = total_over(values[0], params["axes"], self.arithmetic)
            found = [lax.convert_element_type(total, jnp.result_type(values[0]))]
        else:
            found = bound(self.primitive, values, params)
        return [_settled(v, self.arithmetic) for v in found]


def run_on_device(
    eqn: JaxprEqn, values: Sequence[Any], arithmetic: Arithmetic, *, is_backward: bool
) -> list[Any]:
    """Return what an equation gives on a device.

    Args:
        eqn: the equation.
        values: its operands.
        arithmetic: what the device does.
        is_backward: whether the equation belongs to a backward pass.
    """
    device = _Device(eqn.primitive, arithmetic, is_backward, _dtypes(values))
    operator = _operator(eqn.primitive.name)
    found: list[Any] = operator.bind(*values, numcheck_device=device, **eqn.params)
    return found


@functools.cache
def _operator(name: str) -> Primitive:
    """Return the primitive that goes by the name of a plain one."""
    operator = Primitive(name)
    operator.multiple_results = True
    operator.def_impl(_run_compiled)
    operator.def_abstract_eval(_abstract)
    mlir.register_lowering(operator, mlir.lower_fun(_run, multiple_results=True))
    batching.primitive_batchers[operator] = _batched
    return operator


def _run(*values: Any, numcheck_device: _Device, **params: Any) -> list[Any]:
    return numcheck_device(values, params)


def _run_compiled(*values: Any, **params: Any) -> list[Any]:
    return _compiled(tuple(params.items()))(*values)


@functools.lru_cache(maxsize=4096)
def _compiled(params: tuple[tuple[str, Any], ...]) -> Callable[..., list[Any]]:
    return jax.jit(functools.partial(_run, **dict(params)))


def _abstract(*avals: Any, **params: Any) -> list[Any]:
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
    found = jax.eval_shape(functools.partial(_run, **params), *shapes)
    return [jax.core.ShapedArray(a.shape, a.dtype) for a in found]


def _batched(values: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
    in_axes = [a if isinstance(a, int) else None for a in axes]
    run = jax.vmap(functools.partial(_run, **params), in_axes=in_axes)
    found = run(*values)
    return found, [0] * len(found)


def _dtypes(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(jax.dtypes.canonicalize_dtype(jnp.result_type(v)) for v in values)


def _settled(value: Any, arithmetic: Arithmetic) -> Any:
    """Return an output with overflow, NaN and the output's format settled."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not is_float(dtype):
        return value
    if arithmetic.output is not None:
        wide = lax.convert_element_type(value, jnp.float32)
        value = lax.convert_element_type(round_to(wide, arithmetic.output), dtype)
    if arithmetic.saturate:
        largest = jnp.asarray(get(dtype).max, dtype)
        value = jnp.clip(value, -largest, largest)
    if arithmetic.nan_to_zero:
        value = jnp.where(jnp.isnan(value), jnp.zeros((), dtype), value)
    return value
