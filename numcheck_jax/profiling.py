# SPDX-License-Identifier: Apache-2.0
"""Module names as ranges in a profile, spelled as in a report."""

from __future__ import annotations

import contextlib
import contextvars
import sys
from typing import TYPE_CHECKING, Any

import jax

from numcheck_jax.flax_nnx import scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["profiler_ranges"]

_PATH: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar(
    "numcheck_profiler_path", default=()
)


@contextlib.contextmanager
def profiler_ranges() -> Iterator[None]:
    """Show each Flax module's call as a range of its name while the block runs.

    The names are those of a report's sites (``Net.layers.0.up``), so that a finding
    and a profile can be laid beside each other. Where Python runs a module, eagerly or
    to trace it, its call is a `jax.profiler.TraceAnnotation`; the operators of what is
    compiled inside the block carry its path in their metadata, which is where the
    profile of a device takes names from. So enter the block before the first call of
    a jitted function. Outside the block nothing is installed and nothing costs.

    Example:
        >>> import jax.numpy as jnp
        >>> with profiler_ranges():
        ...     result = jnp.sin(0.0)
    """
    with scopes(_range), _linen_ranges():
        yield


@contextlib.contextmanager
def _range(name: str) -> Iterator[None]:
    """Name an NNX module for the compiler and for the profiler."""
    with jax.named_scope(name), _annotated(name):
        yield


@contextlib.contextmanager
def _annotated(name: str) -> Iterator[None]:
    path = (*_PATH.get(), name)
    token = _PATH.set(path)
    try:
        with jax.profiler.TraceAnnotation(".".join(path)):
            yield
    finally:
        _PATH.reset(token)


def _linen_ranges() -> contextlib.AbstractContextManager[Any]:
    """Annotate Linen modules, which name themselves for the compiler."""
    linen: Any = sys.modules.get("flax.linen")
    if linen is None:
        return contextlib.nullcontext()
    manager: contextlib.AbstractContextManager[Any] = linen.intercept_methods(_call)
    return manager


def _call(
    run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], context: Any
) -> Any:
    if context.method_name == "setup":
        return run(*args, **kwargs)
    module = context.module
    name = module.name or type(module).__name__
    if context.method_name != "__call__":
        name = f"{name}.{context.method_name}"
    with _annotated(name):
        return run(*args, **kwargs)
