# SPDX-License-Identifier: Apache-2.0
"""What cannot be watched as a JAX function, said before it is tried."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import jax

from numcheck.adapters import adapters
from numcheck.errors import ArgumentTypeError
from numcheck_jax.adapter import ADAPTER

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_function", "check_leaves"]


def check_function(function: object) -> None:
    """Refuse what is no function of JAX's.

    Raises:
        ArgumentTypeError: it cannot be called, is a class, an unbound Linen module, or
            belongs to another framework.

    >>> check_function(complex)
    Traceback (most recent call last):
    numcheck.errors.ArgumentTypeError: instrument expects a function or an object ...
    """
    if isinstance(function, type):
        name = function.__qualname__
        raise ArgumentTypeError(
            "instrument expects a function or an object that can be called, got the "
            f"class {name}; make an object of it first, or pass the training step"
        )
    if not callable(function):
        kind = type(function).__name__
        raise ArgumentTypeError(f"instrument expects a function, got {kind}")
    if _is_unbound_linen(function):
        kind = type(function).__name__
        raise ArgumentTypeError(
            f"{kind} is a Linen module, which cannot be called by itself; pass its "
            "apply method, or the training step that calls it"
        )
    _refuse_foreign(function)


def check_leaves(leaves: Sequence[Any]) -> None:
    """Refuse the first call of a function that turns out to be another framework's.

    Raises:
        ArgumentTypeError: its arguments are another framework's arrays, none JAX's.
    """
    if any(isinstance(leaf, jax.Array) for leaf in leaves):
        return
    for leaf in leaves:
        _refuse_foreign(leaf, is_leaf=True)


def _refuse_foreign(value: object, *, is_leaf: bool = False) -> None:
    if ADAPTER.claims_leaf(value) if is_leaf else ADAPTER.claims(value):
        return
    for adapter in adapters():
        if adapter.claims_leaf(value) if is_leaf else adapter.claims(value):
            what = "an argument" if is_leaf else "what was given"
            raise ArgumentTypeError(
                f"{what} is a {type(value).__name__} of {adapter.name}, not of jax; "
                f"call numcheck.instrument or {adapter.call}"
            )


def _is_unbound_linen(function: object) -> bool:
    linen: Any = sys.modules.get("flax.linen")
    return (
        linen is not None
        and isinstance(function, linen.Module)
        and function.scope is None
    )
