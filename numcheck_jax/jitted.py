# SPDX-License-Identifier: Apache-2.0
"""What a jitted function tells of its own jit."""

from __future__ import annotations

import types
import weakref
from typing import TYPE_CHECKING, Any, Final

import jax

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck_jax.capture import Call

__all__ = ["compiler_options", "traced_leaves", "without_instance", "without_options"]

_BARE: Final[weakref.WeakKeyDictionary[Any, Callable[..., Any]]] = (
    weakref.WeakKeyDictionary()
)


def compiler_options(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what a function's jit tells the compiler; empty for any other function.

    >>> compiler_options(jax.jit(abs, compiler_options={"xla_cpu_enable_fast_math": 1}))
    {'xla_cpu_enable_fast_math': 1}
    """
    info = getattr(function, "_jit_info", None)
    return dict(getattr(info, "compiler_options_kvs", ()) or ())


def traced_leaves(call: Call) -> frozenset[int] | None:
    """Return which of a call's leaves its jit traces: those of no static argument.

    Returns:
        Their positions; None where the function is no plain jit of JAX's.
    """
    info = getattr(call.function, "_jit_info", None)
    if info is None:
        return None
    count = len(call.args)
    static = {k + count if k < 0 else k for k in info.static_argnums or ()}
    args, kwargs = call.treedef.children()
    owners = [
        *((k not in static, x) for k, x in enumerate(args.children())),
        *(
            (name not in (info.static_argnames or ()), x)
            for name, x in zip(sorted(call.kwargs), kwargs.children(), strict=True)
        ),
    ]
    flags = [is_traced for is_traced, x in owners for _ in range(x.num_leaves)]
    return frozenset(i for i, is_traced in enumerate(flags) if is_traced)


def without_instance(
    function: Callable[..., Any],
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the function of a jitted method, and the instance it is bound to.

    What a bound method tells of its jit, such as the numbers of static arguments,
    counts the instance.
    """
    inner = getattr(function, "__func__", None)
    if isinstance(function, types.MethodType) and isinstance(inner, jax.stages.Wrapped):
        return inner, (function.__self__,)
    return function, ()


def without_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function, jitted without options of the compiler.

    JAX refuses such options for a function that is traced inside another one.
    """
    if not compiler_options(function):
        return function
    known = _BARE.get(function)
    if known is None:
        info: Any = function._jit_info  # type: ignore[attr-defined]
        known = _BARE[function] = jax.jit(
            function.__wrapped__,  # type: ignore[attr-defined]
            static_argnums=info.static_argnums,
            static_argnames=info.static_argnames,
        )
    return known
