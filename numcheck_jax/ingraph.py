# SPDX-License-Identifier: Apache-2.0
"""The watch inside somebody's transformation, where only tracers exist.

The check becomes part of the user's program: an identity on what the function gives
and on the gradients that leave through its arguments. Where it fires, the program
hands over the arguments, so that the function can be run again once Python has the
word.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from numcheck_jax import flax_nnx
from numcheck_jax.boundary import BOUNDARY
from numcheck_jax.identity import lane_of, watched
from numcheck_jax.results import Key, Result
from numcheck_jax.sentinel import is_watchable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numcheck_jax.capture import Call
    from numcheck_jax.identity import Levels

__all__ = ["Place", "Receiver", "Report", "enter", "leave", "reconstruct"]


class Receiver(Protocol):
    """Takes reports from any thread."""

    def receive(self, report: Report) -> None:
        """Keep a report until Python has the word."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """One place where a watched function was traced into a program.

    Attributes:
        receiver: who is told.
        call: the call as it was traced; its arrays are tracers.
        arrays: positions of the leaves that are arrays, in the order handed over.
        floats: positions of the leaves whose gradients are watched.
        treedef: structure of what the function returned; None in the backward half.
        outputs: positions of its float leaves.
    """

    receiver: Receiver
    call: Call
    arrays: tuple[int, ...]
    floats: tuple[int, ...]
    treedef: Any = None
    outputs: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the function."""
        return getattr(self.call.function, "__name__", "function")

    def found(
        self,
        values: Sequence[Any],
        context: Sequence[Any],
        *,
        backward: bool,
        which: Sequence[int],
        batched: Sequence[Levels],
        live: bool,
    ) -> None:
        """Pass on what a program found."""
        if BOUNDARY.is_muted:
            return
        report = Report(
            place=self,
            values=tuple(values),
            context=tuple(context),
            backward=backward,
            which=tuple(which),
            batched=tuple(batched),
        )
        self.receiver.receive(report)


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
    """What a program handed over when a check fired.

    Attributes:
        place: where.
        values: outputs, or gradients.
        context: the function's array arguments.
        backward: whether these are gradients.
        which: places of the values among the watched outputs, or float arguments.
        batched: which `vmap` added the leading axes, for values, then context.
    """

    place: Place
    values: tuple[Any, ...]
    context: tuple[Any, ...]
    backward: bool
    which: tuple[int, ...]
    batched: tuple[Levels, ...]


def enter(receiver: Receiver, call: Call) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return a call's arguments, the gradients that leave through them watched.

    Modules that are changed in place are passed on as they are.
    """
    place = _place(receiver, call)
    if not place.floats or flax_nnx.holds_modules((call.args, call.kwargs)):
        return call.args, call.kwargs
    leaves = list(call.given)
    inputs = [leaves[i] for i in place.floats]
    context = [leaves[i] for i in place.arrays]
    passed = watched(place, inputs, context, value=False)
    for i, x in zip(place.floats, passed, strict=True):
        leaves[i] = x
    args, kwargs = jax.tree.unflatten(call.treedef, leaves)
    return args, kwargs


def leave(receiver: Receiver, call: Call, out: Any) -> Any:
    """Return what the function gave, watched."""
    results, treedef = jax.tree.flatten(out)
    outputs = tuple(i for i, x in enumerate(results) if is_watchable(x))
    if not outputs:
        return out
    place = _place(receiver, call)
    place = dataclasses.replace(place, treedef=treedef, outputs=outputs)
    values = [jnp.asarray(results[i]) for i in outputs]
    context = [call.given[i] for i in place.arrays]
    passed = watched(place, values, context, cotangent=False)
    for i, x in zip(outputs, passed, strict=True):
        results[i] = x
    return jax.tree.unflatten(treedef, results)


def _place(receiver: Receiver, call: Call) -> Place:
    arrays = tuple(i for i, x in enumerate(call.given) if _can_travel(x))
    floats = tuple(i for i in arrays if is_watchable(call.given[i]))
    avals = _aval_of(call)
    return Place(
        receiver, dataclasses.replace(call, given=avals, leaves=avals), arrays, floats
    )


def _can_travel(leaf: Any) -> bool:
    """Whether a leaf is an array that a program can hand to Python."""
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return False
    return not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)


def _aval_of(call: Call) -> tuple[Any, ...]:
    """Return the leaves with tracers replaced by their types, which leak nothing."""
    return tuple(
        jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, jax.core.Tracer) else x
        for x in call.given
    )


def reconstruct(report: Report) -> tuple[Call, Result, dict[Key, float]] | None:
    """Return a call on real arrays that gives what a report shows.

    Returns:
        The call, what it gave, and for each value its norm; None when an argument
        was not handed over. Of a `vmap` the first lane that broke.
    """
    place = report.place
    lane = lane_of(report.values, report.batched)
    depth = 0 if lane is None else len(lane)
    operands = [
        x[tuple(lane[depth - 1 - n] for n in levels)] if lane is not None else x
        for x, levels in zip(
            (*report.values, *report.context), report.batched, strict=True
        )
    ]
    values = operands[: len(report.values)]
    leaves = list(place.call.leaves)
    for i, x in zip(place.arrays, operands[len(values) :], strict=True):
        leaves[i] = jnp.asarray(x)
    if any(isinstance(x, jax.ShapeDtypeStruct) for x in leaves):
        return None
    args, kwargs = jax.tree.unflatten(place.call.treedef, leaves)
    call = dataclasses.replace(
        place.call,
        args=args,
        kwargs=kwargs,
        given=tuple(leaves),
        leaves=tuple(leaves),
        lane=lane,
    )
    if report.backward:
        return _backward(call, report, values)
    found: list[Any] = [None] * place.treedef.num_leaves
    for i, x in zip(place.outputs, values, strict=True):
        found[i] = jnp.asarray(x)
    keys = [Key("out", i) for i in place.outputs]
    return call, Result(tuple(found), place.treedef, {}), _held(keys, values)


def _backward(
    call: Call, report: Report, values: Sequence[Any]
) -> tuple[Call, Result, dict[Key, float]]:
    """Return a call of the function's gradient in the place of the function."""
    floats = tuple(report.place.floats[i] for i in report.which)
    function = _Gradient(call.function, call.treedef, floats)
    found: list[Any] = [None] * len(call.leaves)
    for i, x in zip(floats, values, strict=True):
        found[i] = jnp.asarray(x)
    tree = jax.tree.unflatten(call.treedef, found)
    leaves, treedef = jax.tree.flatten(tree)
    keys = [Key("out", i) for i in range(len(leaves))]
    result = Result(tuple(leaves), treedef, {})
    call = dataclasses.replace(call, function=function)
    return call, result, _held(keys, leaves)


@dataclasses.dataclass(frozen=True)
class _Gradient:
    """The gradient of a function's float outputs, summed, by its float leaves."""

    function: Callable[..., Any]
    treedef: Any
    floats: tuple[int, ...]

    @property
    def __signature__(self) -> Any:
        return inspect.signature(self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = jax.tree.leaves((args, kwargs))

        def of_floats(floats: Sequence[Any]) -> list[Any]:
            given = list(leaves)
            for i, x in zip(self.floats, floats, strict=True):
                given[i] = x
            new_args, new_kwargs = jax.tree.unflatten(self.treedef, given)
            out = self.function(*new_args, **new_kwargs)
            return [x for x in jax.tree.leaves(out) if is_watchable(x)]

        outs, pull = jax.vjp(of_floats, [leaves[i] for i in self.floats])
        (gradients,) = pull([jnp.ones_like(x) for x in outs])
        found: list[Any] = [None] * len(leaves)
        for i, x in zip(self.floats, gradients, strict=True):
            found[i] = x
        return jax.tree.unflatten(self.treedef, found)


def _held(keys: Sequence[Key], values: Sequence[Any]) -> dict[Key, float]:
    held: dict[Key, float] = {}
    for key, value in zip(keys, values, strict=True):
        wide = np.abs(np.asarray(value).astype(np.float64))
        held[key] = float(wide.max()) if wide.size else 0.0
    return held
