# SPDX-License-Identifier: Apache-2.0
"""Which dtypes are lifted to what, and how one equation is evaluated then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr

from numcheck_jax.columns import is_float
from numcheck_jax.interpreter.rules.leaf import rebind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Cell

__all__ = ["Lifting", "Target", "dtype_of"]

Target = Literal["same", "bfloat16", "float32", "float64"]

_WIDTHS: Final = {"same": 0, "bfloat16": 0, "float32": 4, "float64": 8}
# These look at bits or run code that knows its dtypes, so they get what they expect.
_FOREIGN: Final = frozenset(
    (
        "bitcast_convert_type",
        "custom_partitioning",
        "ffi_call",
        "io_callback",
        "nextafter",
        "pallas_call",
        "pure_callback",
        "random_bits",
        "random_gamma",
        "rng_bit_generator",
        "rng_uniform",
    )
)


def dtype_of(atom: Any) -> Any:
    """Return the dtype of a variable or constant; None for tokens and references."""
    return getattr(atom.aval, "dtype", None)


class Lifting:
    """Which dtypes are lifted to what, and equations evaluated accordingly."""

    def __init__(self, to: Target) -> None:
        """Lift floats narrower than `to`; ``same`` lifts each dtype to itself.

        ``bfloat16`` takes the place of float16 alone, of which it has not the digits.
        """
        self.to = to
        self._width = _WIDTHS[to]

    def changes(self, dtype: Any) -> bool:
        """Whether values of this dtype are lifted."""
        if dtype is None or jnp.issubdtype(dtype, jax.dtypes.extended):
            return False
        if self.to == "bfloat16":
            return bool(dtype == jnp.float16)
        if jnp.issubdtype(dtype, jnp.complexfloating):
            return bool(jnp.dtype(dtype).itemsize < 2 * self._width)
        return is_float(dtype) and jnp.dtype(dtype).itemsize < self._width

    def dtype(self, dtype: Any) -> Any:
        """Return the dtype that values of `dtype` are lifted to."""
        if not self.changes(dtype):
            return dtype
        if jnp.issubdtype(dtype, jnp.complexfloating):
            return np.dtype("complex128")
        return jnp.dtype(self.to)

    def value(self, value: Any) -> Any:
        """Return a value in the dtype it is lifted to; exact for every finite one."""
        dtype = getattr(value, "dtype", None)
        if not self.changes(dtype):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return np.asarray(value).astype(self.dtype(dtype))
        return lax.convert_element_type(value, self.dtype(dtype))

    def bind(self, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
        """Evaluate an equation on lifted operands and return lifted outputs."""
        name = eqn.primitive.name
        touched = (*eqn.invars, *eqn.outvars)
        if not any(self.changes(dtype_of(a)) for a in touched):
            return rebind(eqn, values)
        if name == "reduce_precision":
            return [values[0]]
        if name in _FOREIGN:
            declared = [
                lax.convert_element_type(v, dtype_of(a))
                if self.changes(dtype_of(a))
                else v
                for v, a in zip(values, eqn.invars, strict=True)
            ]
            return [self.value(v) for v in rebind(eqn, declared)]
        params = {key: self._param(value) for key, value in eqn.params.items()}
        return rebind(eqn.replace(params=params), values)

    def beside(
        self, eqn: JaxprEqn, operands: Sequence[Cell], values: Sequence[Any]
    ) -> list[Any] | None:
        """Return the shadows of an equation's outputs; None when nothing differs.

        Integers, flags and random decisions are taken from the program: they have no
        shadow.
        """
        lifts = [self.changes(dtype_of(v)) for v in eqn.outvars]
        if not any(lifts) and all(c.shadow is None for c in operands):
            return None
        if not any(is_float(dtype_of(v)) for v in eqn.outvars):
            return None
        found = self.bind(eqn, [c.lifted for c in operands])
        return [shadow if is_float(shadow.dtype) else None for shadow in found]

    def _param(self, value: Any) -> Any:
        if isinstance(value, np.dtype) or (
            isinstance(value, type) and issubclass(value, np.generic)
        ):
            return self.dtype(value)
        if isinstance(value, ClosedJaxpr):
            return self._body(value)
        if isinstance(value, Jaxpr):
            return self._body(ClosedJaxpr(value, ())).jaxpr
        if isinstance(value, lax.DotAlgorithm | lax.DotAlgorithmPreset):
            return None
        if isinstance(value, tuple):
            items = [self._param(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value

    def _body(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return a body, such as a reduction's operator, in lifted dtypes."""
        from numcheck_jax.lift import evaluate

        avals = [
            jax.ShapeDtypeStruct(v.aval.shape, self.dtype(dtype_of(v)))
            for v in closed.jaxpr.invars
        ]
        return jax.make_jaxpr(lambda *xs: evaluate(self, closed, xs))(*avals)
