# SPDX-License-Identifier: Apache-2.0
"""The object that answers for JAX behind the core's door; it imports no framework."""

from __future__ import annotations

import contextlib
import functools
import types
from typing import TYPE_CHECKING, Any

from numcheck.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numcheck.doctor import Check
    from numcheck.monitor import Monitor

__all__ = ["ADAPTER", "JaxAdapter"]

_OURS = frozenset({"equinox", "flax", "haiku", "jax", "jaxlib"})


class JaxAdapter:
    """Tells JAX's objects by the modules their classes come from."""

    name = "jax"
    call = "numcheck_jax.instrument"

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

    def instrument(self, target: Any, **options: Any) -> Any:
        """Return `target`, watched; see `numcheck_jax.instrument`.

        Raises:
            MissingExtraError: JAX is not installed.
        """
        with _or_missing_extra():
            from numcheck_jax.instrumentation import instrument
        return instrument(target, **options)

    def simulate(self, target: Any, profile: Any, **options: Any) -> Any:
        """Return `target` on another device; see `numcheck_jax.simulate`.

        Raises:
            MissingExtraError: JAX is not installed.
        """
        with _or_missing_extra():
            from numcheck_jax.simulation import simulate
        return simulate(target, profile, **options)

    def demonstrate(self) -> Monitor:
        """Train a small model that breaks, watched, and return its monitor.

        Raises:
            MissingExtraError: JAX, Flax or Optax is not installed.
        """
        with _or_missing_extra():
            from numcheck_jax.demo import demonstrate
        return demonstrate()

    def examine(self) -> Iterable[Check]:
        """Say what JAX can do on this machine."""
        from numcheck.doctor import broken_import

        try:
            from numcheck_jax.examine import examine
        except (ImportError, RuntimeError, OSError) as error:
            return (broken_import("jax", error),)
        return examine()


@contextlib.contextmanager
def _or_missing_extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or _top(missing.name) not in {*_OURS, "optax"}:
            raise
        msg = f"{missing.name} is not installed: pip install 'numcheck[jax,flax]'"
        raise MissingExtraError(msg) from missing


def _top(module: str) -> str:
    return module.partition(".")[0]


ADAPTER = JaxAdapter()
