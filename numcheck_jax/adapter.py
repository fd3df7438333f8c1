# SPDX-License-Identifier: Apache-2.0
"""The object that answers for JAX behind the core's door; it imports no framework."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING

from numcheck.lazy_adapter import LazyAdapter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from numcheck.monitor import Monitor
    from numcheck.options import Options

__all__ = ["ADAPTER", "JaxAdapter"]

_OURS = frozenset({"equinox", "flax", "haiku", "jax", "jaxlib"})


class JaxAdapter(LazyAdapter):
    """Tells JAX's objects by the modules their classes come from."""

    name = "jax"
    package = "numcheck_jax"
    needs = _OURS | {"optax"}
    extra = "jax,flax"

    def claims(self, target: object) -> bool:
        """Whether `target` is a jitted or transformed function, or a module.

        A plain function is nobody's until its first call; a transformation's result
        (`jax.grad(f)`) is a plain function too, but lives in JAX's own namespace.

        >>> JaxAdapter().claims(len)
        False
        """
        if isinstance(target, functools.partial):
            return self.claims(target.func)
        if isinstance(target, types.MethodType):
            return self.claims(target.__func__)
        if isinstance(target, types.FunctionType):
            return _top(str(target.__globals__.get("__name__", ""))) in _OURS
        return self.claims_leaf(target)

    def claims_leaf(self, leaf: object) -> bool:
        """Whether `leaf` is an array or a module of the JAX family.

        >>> JaxAdapter().claims_leaf(1.5)
        False
        """
        return any(_top(c.__module__) in _OURS for c in type(leaf).__mro__)

    def watching(self, options: Options) -> AbstractContextManager[Sequence[Monitor]]:
        """Watch whatever a script jits inside the block, for ``numcheck run``.

        Raises:
            MissingExtraError: JAX is not installed.
        """
        watched: AbstractContextManager[Sequence[Monitor]] = self.load(
            "running", "watching"
        )(options)
        return watched


def _top(module: str) -> str:
    return module.partition(".")[0]


ADAPTER = JaxAdapter()
