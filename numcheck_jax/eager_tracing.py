# SPDX-License-Identifier: Apache-2.0
"""Tracing of a function whose Python looks at values: run it, and note what it does.

Where ordinary tracing stands for every input, this stands for the branches that one
call took. Every value is at hand, so `if`, `float` and `print` work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend import source_info_util
from jax.extend.core import (
    ClosedJaxpr,
    DebugInfo,
    Jaxpr,
    Literal,
    Var,
    new_jaxpr_eqn,
    no_effects,
    set_current_trace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["run_noted"]


class _Noted(jax.core.Tracer[Any]):
    """A value at hand that also stands for a variable of the program."""

    __slots__ = ("value", "variable")

    def __init__(self, trace: _Notes, value: Any, variable: Any) -> None:
        super().__init__(trace, jax.typeof(value))
        self.value = value
        self.variable = variable

    def to_concrete_value(self) -> Any:
        """Return the value, for Python that asks."""
        return self.value

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self.value, *args, **kwargs)

    def __float__(self) -> float:
        return float(self.value)

    def __complex__(self) -> complex:
        return complex(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __repr__(self) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return str(self.value)

    def tolist(self) -> Any:
        """Return the value as Python numbers."""
        return self.value.tolist()

    def item(self, *args: Any) -> Any:
        """Return the value of one element as a Python number."""
        return self.value.item(*args)

    def block_until_ready(self) -> Any:
        """Return the value itself: it is computed already."""
        return self

    def is_deleted(self) -> bool:
        """Whether the buffer was donated: never here."""
        return False


class _Notes(jax.core.Trace):
    """Evaluates every primitive, and notes it as an equation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.eqns: list[Any] = []
        self.constants: list[tuple[Any, Any]] = []

    def fresh(self, value: Any) -> _Noted:
        return _Noted(self, value, Var(jax.typeof(value)))

    def atom(self, operand: Any) -> Any:
        """Return the variable of an operand; anything else is a constant."""
        if isinstance(operand, _Noted) and operand._trace is self:
            return operand.variable
        aval = jax.typeof(operand)
        if not np.ndim(operand) and not isinstance(operand, jax.Array):
            return Literal(operand, aval)
        made = Var(aval)
        self.constants.append((made, operand))
        return made

    def value(self, operand: Any) -> Any:
        return operand.value if isinstance(operand, _Noted) else operand

    def stage_value(self, val: Any) -> Any:
        """Return a value as one of this trace."""
        return val

    def process_primitive(
        self, primitive: Any, tracers: Sequence[Any], params: Any, /
    ) -> Any:
        """Evaluate a primitive on the values, and note it."""
        operands = [self.value(t) for t in tracers]
        with jax.core.eval_context():
            outs = primitive.bind(*operands, **params)
        results = outs if primitive.multiple_results else [outs]
        noted = [self.fresh(x) for x in results]
        self.eqns.append(
            new_jaxpr_eqn(
                [self.atom(t) for t in tracers],
                [n.variable for n in noted],
                primitive,
                params,
                no_effects,
                source_info_util.current(),
            )
        )
        return noted if primitive.multiple_results else noted[0]

    def process_call(
        self, call_primitive: Any, f: Any, tracers: Sequence[Any], params: Any, /
    ) -> Any:
        """Note what a call does, not the call."""
        with set_current_trace(self):
            return f.call_wrapped(*tracers)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Sequence[Any], /, **_: Any
    ) -> Any:
        """Note what the function does; nothing differentiates it from here on."""
        with set_current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Any,
        fwd: Any,
        bwd: Any,
        tracers: Sequence[Any],
        /,
        **_: Any,
    ) -> Any:
        """Note what the function does; nothing differentiates it from here on."""
        with set_current_trace(self):
            return fun.call_wrapped(*tracers)


def run_noted(
    function: Callable[..., Sequence[Any]], args: Sequence[Any]
) -> ClosedJaxpr:
    """Run a function of flat arrays and return the program that it ran.

    Args:
        function: returns a flat sequence of arrays and numbers.
        args: its arrays.

    Example:
        >>> import jax.numpy as jnp
        >>> closed = run_noted(lambda x: [x + 1 if x > 0 else -x], [jnp.float32(2.0)])
        >>> jax.core.eval_jaxpr(closed.jaxpr, closed.consts, jnp.float32(5.0))
        [Array(6., dtype=float32)]
    """
    notes = _Notes()
    given = [notes.fresh(jax.numpy.asarray(x)) for x in args]
    with set_current_trace(notes):
        outs = list(function(*given))
    outvars = [notes.atom(x) for x in outs]
    jaxpr = Jaxpr(
        constvars=[v for v, _ in notes.constants],
        invars=[n.variable for n in given],
        outvars=outvars,
        eqns=notes.eqns,
        debug_info=DebugInfo(
            "numcheck",
            getattr(function, "__name__", "function"),
            tuple(f"args[{i}]" for i in range(len(given))),
            tuple(f"result[{i}]" for i in range(len(outvars))),
        ),
    )
    return ClosedJaxpr(jaxpr, [jax.numpy.asarray(x) for _, x in notes.constants])
