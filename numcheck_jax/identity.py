# SPDX-License-Identifier: Apache-2.0
"""An identity inside a program that looks at what passes, forwards and backwards.

A primitive of its own survives every transformation: it is batched whole, it is
linear for derivatives of either mode, and it costs one reduction a value. Only where
a value is not finite does the program call back, with the value itself.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from numcheck_jax.sentinel import damaged, is_watchable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CHECK", "Levels", "Watcher", "lane_detail", "lane_of", "watched"]

Levels = tuple[int, ...]
"""For each leading axis of a value that a `vmap` added, the number of that `vmap`; the
innermost is 0. Values that only some of them batch have these axes alone."""


class Watcher(Protocol):
    """Is told by a running program what it found. Must be hashable."""

    @property
    def name(self) -> str:
        """What the value is called."""
        ...

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
        """Take the values, one of which holds a NaN or an Inf.

        Args:
            values: what passed.
            context: what else was to be handed over.
            backward: whether these are cotangents.
            which: their places among the values that were to be watched; a value
                that nothing depends on has no cotangent.
            batched: for each value, then each of the context, which `jax.vmap` added
                its leading axes; see `Levels`.
            live: whether this is the user's own thread, where raising reaches him;
                else it is a program's callback.
        """
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class _Rule:
    """What one check does; the parameters of its equation.

    Attributes:
        watcher: who is told.
        count: number of values; the operands after them are context.
        value: whether the values themselves are checked.
        cotangent: whether their cotangents are.
        backward: whether the values are cotangents already.
        which: places of the values among those that were to be watched.
        batched: which `vmap` added the leading axes of each operand.
    """

    watcher: Watcher
    count: int
    value: bool
    cotangent: bool
    backward: bool
    which: tuple[int, ...]
    batched: tuple[Levels, ...]

    def only(self, values: Sequence[int]) -> _Rule:
        """Return the rule for some of the values, with the same context."""
        depths = [self.batched[i] for i in values]
        return dataclasses.replace(
            self,
            count=len(values),
            which=tuple(self.which[i] for i in values),
            batched=(*depths, *self.batched[self.count :]),
        )


def watched(
    watcher: Watcher,
    values: Sequence[Any],
    context: Sequence[Any] = (),
    *,
    value: bool = True,
    cotangent: bool = True,
) -> list[Any]:
    """Return `values` unchanged, checked whenever the program runs.

    Args:
        watcher: who is told.
        values: float arrays.
        context: further arrays that a report carries, e.g. what is needed to run the
            step again.
        value: whether the values themselves are checked.
        cotangent: whether their cotangents are.
    """
    operands = (*values, *context)
    rule = _Rule(
        watcher,
        count=len(values),
        value=value,
        cotangent=cotangent,
        backward=False,
        which=tuple(range(len(values))),
        batched=((),) * len(operands),
    )
    return list(CHECK.bind(*operands, rule=rule, name=watcher.name))


def lane_of(values: Sequence[Any], batched: Sequence[Levels]) -> tuple[int, ...] | None:
    """Return the first lane with a value that is not finite, the outermost first.

    Returns:
        None outside of `vmap`, or when every value is finite.

    >>> lane_of([np.array([[1.0, 2.0], [np.inf, 3.0]])], [(0,)])
    (1,)
    """
    depth = max((n for levels in batched for n in levels), default=-1) + 1
    for value, levels in zip(values, batched, strict=False):
        wide = np.asarray(value)
        if wide.dtype.kind != "c":
            wide = wide.astype(np.float64)
        rest = tuple(range(len(levels), wide.ndim))
        bad = np.argwhere(~np.isfinite(wide).all(axis=rest))
        if depth and bad.size:
            at = dict(zip(levels, map(int, bad[0]), strict=True))
            return tuple(at.get(n, 0) for n in reversed(range(depth)))
    return None


def lane_detail(lane: tuple[int, ...] | None) -> tuple[tuple[str, str], ...]:
    """Return what a site says of its lane.

    >>> lane_detail((1, 4)), lane_detail(None)
    ((('lane', '1.4'),), ())
    """
    return () if lane is None else (("lane", ".".join(map(str, lane))),)


CHECK = Primitive("check_numerics")
CHECK.multiple_results = True
_TANGENT = Primitive("check_numerics_tangent")
_TANGENT.multiple_results = True


def _tell(rule: _Rule, *operands: Any, live: bool = False) -> None:
    values = [np.asarray(x) for x in operands[: rule.count]]
    context = [np.asarray(x) for x in operands[rule.count :]]
    rule.watcher.found(
        values,
        context,
        backward=rule.backward,
        which=rule.which,
        batched=rule.batched,
        live=live,
    )


def _is_bad(values: Sequence[Any]) -> jax.Array:
    return damaged([x for x in values if is_watchable(x)]).any()


def _run(*operands: Any, rule: _Rule, name: str) -> list[Any]:
    values = list(operands[: rule.count])
    if rule.value and bool(_is_bad(values)):
        _tell(rule, *operands, live=True)
    return values


def _emit(*operands: Any, rule: _Rule, name: str) -> list[Any]:
    values = list(operands[: rule.count])
    if rule.value:
        tell = functools.partial(_tell, rule)
        lax.cond(
            _is_bad(values),
            lambda *xs: jax.debug.callback(tell, *xs),
            lambda *_: None,
            *operands,
        )
    return values


def _abstract(*avals: Any, rule: _Rule, name: str) -> list[Any]:
    return list(avals[: rule.count])


def _batched(
    primitive: Primitive,
    operands: Sequence[Any],
    dims: Sequence[Any],
    *,
    rule: _Rule,
    name: str,
) -> tuple[list[Any], list[Any]]:
    front = [
        x if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(operands, dims, strict=True)
    ]
    level = max((n for levels in rule.batched for n in levels), default=-1) + 1
    batched = tuple(
        levels if d is None else (level, *levels)
        for levels, d in zip(rule.batched, dims, strict=True)
    )
    rule = dataclasses.replace(rule, batched=batched)
    outs = primitive.bind(*front, rule=rule, name=name)
    where = [None if d is None else 0 for d in dims[: rule.count]]
    return list(outs), where


def _differentiate(
    primals: Sequence[Any], tangents: Sequence[Any], *, rule: _Rule, name: str
) -> tuple[list[Any], list[Any]]:
    values = CHECK.bind(*primals, rule=rule, name=name)
    given = list(tangents[: rule.count])
    if not rule.cotangent:
        return values, given
    live = [i for i, t in enumerate(given) if not isinstance(t, ad.Zero)]
    if live:
        context = primals[rule.count :]
        linear = rule.only(live)
        passed = _TANGENT.bind(
            *(given[i] for i in live), *context, rule=linear, name=name
        )
        for i, t in zip(live, passed, strict=True):
            given[i] = t
    return values, given


def _transpose(
    cotangents: Sequence[Any], *operands: Any, rule: _Rule, name: str
) -> list[Any]:
    live = [i for i, ct in enumerate(cotangents) if not isinstance(ct, ad.Zero)]
    found = list(cotangents)
    if live:
        back = dataclasses.replace(rule.only(live), value=True, backward=True)
        context = operands[rule.count :]
        passed = CHECK.bind(
            *(cotangents[i] for i in live), *context, rule=back, name=name
        )
        for i, ct in zip(live, passed, strict=True):
            found[i] = ct
    return [*found, *(None for _ in operands[rule.count :])]


def _tangent(*operands: Any, rule: _Rule, name: str) -> list[Any]:
    return list(operands[: rule.count])


def _tangent_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, rule: _Rule, name: str
) -> tuple[list[Any], list[Any]]:
    values = _TANGENT.bind(*primals, rule=rule, name=name)
    return values, list(tangents[: rule.count])


CHECK.def_impl(_run)
CHECK.def_abstract_eval(_abstract)
batching.primitive_batchers[CHECK] = functools.partial(_batched, CHECK)
batching.primitive_batchers[_TANGENT] = functools.partial(_batched, _TANGENT)
ad.primitive_jvps[CHECK] = _differentiate
ad.primitive_jvps[_TANGENT] = _tangent_jvp
ad.primitive_transposes[_TANGENT] = _transpose
_TANGENT.def_impl(_tangent)
_TANGENT.def_abstract_eval(_abstract)
mlir.register_lowering(CHECK, mlir.lower_fun(_emit, multiple_results=True))
mlir.register_lowering(_TANGENT, mlir.lower_fun(_tangent, multiple_results=True))
