# SPDX-License-Identifier: Apache-2.0
"""The cheap check: one small program over what a step hands back.

It adds up squares, since a sum passes on every NaN and Inf, which a float maximum does
not on some backends, and is as fast as memory. Finite values whose squares overflow
are told apart element by element, which a program does only where it must. Everything
is packed into one array: one dispatch and one transfer a step.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.typing import ArrayLike

    Table = np.ndarray[Any, np.dtype[np.float32]]

__all__ = [
    "Flag",
    "damaged",
    "is_bad",
    "is_watchable",
    "launch",
    "measured",
    "values",
]

_INEXACT_KINDS: Final = frozenset(("c", "f"))


def is_watchable(leaf: object) -> bool:
    """Whether a value can hold a NaN or Inf: a float or complex array or number.

    >>> is_watchable(1.5), is_watchable(3), is_watchable("text")
    (True, False, False)
    """
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not hasattr(leaf, "shape"):
        return isinstance(leaf, float | complex)
    # To look a dtype up takes longer; bfloat16 and its like have a kind of their own.
    return getattr(dtype, "kind", "") in _INEXACT_KINDS or _is_inexact(dtype)


@functools.cache
def _is_inexact(dtype: Any) -> bool:
    try:
        return bool(jnp.issubdtype(dtype, jnp.inexact))
    except TypeError:  # the label of another library
        return False


def damaged(arrays: Sequence[ArrayLike]) -> jax.Array:
    """Return, for each float or complex array, whether it holds a NaN or an Inf.

    >>> damaged([jnp.ones(3), jnp.array([1.0, jnp.inf])]).tolist()
    [False, True]
    """
    given = [jnp.asarray(x) for x in arrays]
    return _damaged(given, [_square_sum(x) for x in given])


def measured(arrays: Sequence[ArrayLike]) -> jax.Array:
    """Return float32[2, n] for n arrays: 1 where damaged, and how large it is.

    The second row holds the value of a real scalar, the Euclidean norm of any other
    array; NaN, or an infinity, where a damaged one holds such, or where a norm leaves
    float32's range.
    """
    given = [jnp.asarray(x) for x in arrays]
    squares = [_square_sum(x) for x in given]
    sizes = [_size(x, square) for x, square in zip(given, squares, strict=True)]
    flags = _damaged(given, squares).astype(jnp.float32)
    return jnp.stack([flags, jnp.stack(sizes)])


def _square_sum(x: jax.Array) -> jax.Array:
    """Return the sum of |x|², not finite where an element is not."""
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return _square_sum(x.real) + _square_sum(x.imag)
    if x.dtype.itemsize < 4:
        x = x.astype(jnp.float32)
    return jnp.sum(x * x)


def _size(x: jax.Array, square: jax.Array) -> jax.Array:
    is_number = x.ndim == 0 and not jnp.issubdtype(x.dtype, jnp.complexfloating)
    return (x if is_number else jnp.sqrt(square)).astype(jnp.float32)


def _damaged(arrays: list[jax.Array], squares: list[jax.Array]) -> jax.Array:
    if not arrays:
        return jnp.zeros(0, bool)
    suspicious = ~jnp.stack([jnp.isfinite(square) for square in squares])
    found: jax.Array = lax.cond(
        suspicious.any(),
        lambda xs: jnp.stack([_has_bad(x) for x in xs]),
        lambda _: suspicious,
        arrays,
    )
    return found


def _has_bad(x: jax.Array) -> jax.Array:
    if x.dtype.itemsize < 2:  # whose specials differ by type
        x = x.astype(jnp.float32)
    return ~jnp.isfinite(x).all()


@jax.jit
def _table(leaves: list[jax.Array]) -> jax.Array:
    return measured(leaves)


def _host_table(leaves: Sequence[Any]) -> Table:
    """Return what `measured` does for values that live on the host."""
    table = np.zeros((2, len(leaves)), np.float32)
    for i, leaf in enumerate(leaves):
        x = np.asarray(leaf)
        x = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        table[0, i] = not np.isfinite(x).all()
        with np.errstate(over="ignore", invalid="ignore"):
            number = x if x.ndim == 0 and x.dtype.kind == "f" else np.linalg.norm(x)
            table[1, i] = number
    return table


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """The check of one step, on its way from the devices.

    Attributes:
        parts: positions among the leaves and the table of these leaves, one pair for
            each set of devices.
        count: number of leaves.
    """

    parts: tuple[tuple[tuple[int, ...], Any], ...]
    count: int

    @property
    def is_ready(self) -> bool:
        """Whether reading would not wait."""
        return all(_has_arrived(table) for _, table in self.parts)

    def read(self) -> Table:
        """Return the table of all leaves, as `measured`; waits for the step."""
        table = np.zeros((2, self.count), np.float32)
        for positions, part in self.parts:
            table[:, list(positions)] = np.asarray(part)
        return table


def _has_arrived(table: Any) -> bool:
    return bool(getattr(table, "is_ready", lambda: True)())


def is_bad(table: Table) -> list[bool]:
    """Return which of the leaves hold a NaN or an Inf.

    >>> is_bad(launch([jnp.ones(3), np.float32("-inf")]).read())
    [False, True]
    """
    return [bool(flag) for flag in table[0]]


def values(table: Table) -> list[float]:
    """Return the value of each scalar leaf, the Euclidean norm of each other.

    Finite for every leaf that is; a norm beyond float32 is given as its largest value.

    >>> values(launch([jnp.float32(-2.5), jnp.array([3.0, -4.0])]).read())
    [-2.5, 5.0]
    """
    limit = float(np.finfo(np.float32).max)
    cut = np.where(table[0] != 0, table[1], np.clip(table[1], -limit, limit))
    return [float(value) for value in cut]


def launch(leaves: Sequence[Any]) -> Flag:
    """Start the check of float leaves and return without waiting."""
    groups: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        groups.setdefault(_place(leaf), []).append(i)
    parts = []
    for place, at in groups.items():
        group = [leaves[i] for i in at]
        parts.append((tuple(at), _table(group) if place else _host_table(group)))
    return Flag(tuple(parts), len(leaves))


def _place(leaf: object) -> frozenset[Any]:
    """Return what leaves must share to enter one program: devices; none on the host."""
    if not isinstance(leaf, jax.Array):
        return frozenset()
    return frozenset(leaf.sharding.device_set)
