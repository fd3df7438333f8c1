# SPDX-License-Identifier: Apache-2.0
"""What a jitted function tells of its own jit."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

import jax

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["compiler_options", "without_options"]

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
