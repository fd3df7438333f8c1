# SPDX-License-Identifier: Apache-2.0
"""What is kept of a call: references to its leaves, taken before it runs."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.record.notice import notice
from numcheck_jax.naming import argument_names, leaf_name, leaf_paths
from numcheck_jax.references import held

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Call", "capture", "is_deleted", "is_traced", "kept_alive", "may_donate"]

_SAMPLED = 4096


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of the user's function, with every leaf as it was before.

    JAX arrays cannot change, so references are enough; an object mutated in place
    (an NNX module) holds other arrays afterwards. NumPy memory can change, so a
    checksum over a sample of it is kept.

    Attributes:
        function: what the user handed over.
        args: positional arguments, by reference.
        kwargs: keyword arguments, by reference.
        given: leaves of ``(args, kwargs)``, the very objects.
        leaves: the same values, held for a replay: copies where a call consumes them.
        treedef: their structure.
        step: 0-based step.
        rank: this process among those that run the program.
        checksums: of the NumPy leaves, by position.
        lane: which element of each `vmap` around it this is, the outermost first; None
            outside.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    given: tuple[Any, ...]
    leaves: tuple[Any, ...]
    treedef: Any
    step: int
    checksums: Mapping[int, int]
    rank: int = 0
    lane: tuple[int, ...] | None = None

    @functools.cached_property
    def paths(self) -> tuple[tuple[Any, ...], ...]:
        """The pytree path of each leaf, from ``(args, kwargs)`` on."""
        return leaf_paths(self.treedef, self.given)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each leaf, e.g. ``params['w']``."""
        arguments = argument_names(self.function, len(self.args))
        return tuple(leaf_name(p, arguments) for p in self.paths)

    @property
    def donated(self) -> tuple[int, ...]:
        """Positions of the leaves whose buffers the call consumed."""
        return tuple(i for i, x in enumerate(self.leaves) if is_deleted(x))

    @property
    def is_consumed(self) -> bool:
        """Whether the function can no longer be called with what it was given."""
        return any(map(is_deleted, self.given))

    def require_intact(self) -> None:
        """Check that every leaf still holds what the call was given.

        Raises:
            CannotRunError: a leaf was donated, or changed in place since.
        """
        for i in self.donated:
            raise CannotRunError(notice("refusal.donated", name=self.names[i]))
        for i, checksum in self.checksums.items():
            if _checksum(self.leaves[i]) != checksum:
                raise CannotRunError(notice("refusal.changed", name=self.names[i]))


def capture(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    step: int,
    rank: int = 0,
) -> Call:
    """Take references to the leaves of a call that is about to run."""
    leaves, treedef = jax.tree.flatten((args, dict(kwargs)))
    sums = {i: _checksum(x) for i, x in enumerate(leaves) if type(x) is np.ndarray}
    given = tuple(leaves)
    kept = held(given)
    return Call(function, args, kwargs, given, kept, treedef, step, sums, rank)


def is_traced(leaves: tuple[Any, ...]) -> bool:
    """Whether a call happens inside somebody's transformation."""
    return any(isinstance(x, jax.core.Tracer) for x in leaves)


def _checksum(array: np.ndarray[Any, Any]) -> int:
    """Return a checksum over at most `_SAMPLED` elements spread over the array."""
    if array.dtype.hasobject:
        return 0
    flat = array.reshape(-1) if array.flags.c_contiguous else array.ravel()
    stride = max(1, flat.size // _SAMPLED)
    return zlib.crc32(np.ascontiguousarray(flat[::stride]).tobytes())


def is_deleted(leaf: object) -> bool:
    """Whether a leaf is an array whose buffer some call consumed."""
    return isinstance(leaf, jax.Array) and leaf.is_deleted()


def kept_alive(call: Call) -> Call:
    """Return the call holding copies of whatever its run may consume.

    A jitted function says itself whether it donates; of any other nothing is known.
    """
    if not may_donate(call):
        return call
    held = tuple(x.copy() if _is_buffer(x) else x for x in call.leaves)
    return dataclasses.replace(call, leaves=held)


def may_donate(call: Call) -> bool:
    """Whether a call may consume what it is given."""
    trace = getattr(call.function, "trace", None)
    if not isinstance(call.function, jax.stages.Wrapped) or trace is None:
        return True
    try:
        return bool(trace(*call.args, **call.kwargs).donate_argnums)
    except Exception:  # noqa: BLE001 - the user's function runs inside, and will say it
        return False


def _is_buffer(leaf: object) -> bool:
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
