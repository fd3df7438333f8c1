# SPDX-License-Identifier: Apache-2.0
"""A jitted step in whose place another program runs: measured, or able to go back.

Level watch never does this: there the user's own executable runs.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numcheck_jax.capture import is_deleted
from numcheck_jax.compiled import compiled_trace
from numcheck_jax.jitted import compiler_options, traced_leaves
from numcheck_jax.references import is_reference
from numcheck_jax.replay import arguments, kept_site, source_sites
from numcheck_jax.results import Key
from numcheck_jax.sentinel import damaged, is_watchable, measured

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.record.site import Site
    from numcheck_jax.capture import Call
    from numcheck_jax.compiled import CompiledTrace, Policy
    from numcheck_jax.roles import Roles
    from numcheck_jax.tracing import Program

__all__ = [
    "Substitute",
    "can_stand_in",
    "donated_leaves",
    "substitute",
]


class Ran(NamedTuple):
    """What a substitute gave.

    Attributes:
        out: what the user's function would have returned.
        rows: statistics, to be read with the substitute's `traced`; None without.
        table: the sentinel's table of the float outputs, before going back.
    """

    out: Any
    rows: Any
    table: Any


@dataclasses.dataclass(frozen=True)
class Substitute:
    """A program in the place of the user's.

    Attributes:
        program: the user's program.
        roles: what its values are.
        traced: how its rows are read; None when nothing is measured.
        run: takes the flat arguments and returns outputs, rows and table.
        sites: what is measured, and after that the float values handed back.
        kept: for each of these its place, the index of its site, and its size.
        goes_back: whether it hands back the old state where a step broke.
    """

    program: Program
    roles: Roles
    traced: CompiledTrace | None
    run: Callable[..., tuple[list[Any], Any, Any]]
    sites: tuple[Site, ...] = ()
    kept: tuple[tuple[Key, int, int], ...] = ()
    goes_back: bool = False

    @property
    def measures_all(self) -> bool:
        """Whether every operator is measured, not anchors alone."""
        return self.traced is not None and self.traced.measure == "moments"

    @property
    def has_effects(self) -> bool:
        """Whether a run does more than compute, such as print or call back."""
        return bool(self.program.closed.effects)

    def __call__(self, call: Call) -> Ran:
        """Run a call's program on its arguments."""
        # A reference was written to meanwhile; what it held before is what counts.
        before = [
            leaf if is_reference(given) else given
            for given, leaf in zip(call.given, call.leaves, strict=True)
        ]
        outs, rows, table = self.run(*arguments(self.program, before))
        leaves: list[Any] = [None] * len(self.program.shape.leaves)
        for key, value in zip(self.program.outputs, outs, strict=True):
            if key.kind == "out":
                leaves[key.position] = value
        out = jax.tree.unflatten(self.program.shape.treedef, leaves)
        return Ran(out, rows, table)

    def restored(self, call: Call, out: Any) -> Call:
        """Return the call with the state it consumed taken from what came back.

        True to the call where the step broke, since its state is the old one then;
        without going back what came is the broken state, and the call stays as it is.
        """
        if not self.goes_back:
            return call
        results = jax.tree.leaves(out)
        leaves = list(call.leaves)
        for key, position in self.roles.was.items():
            leaf = leaves[position]
            if is_deleted(leaf):
                leaves[position] = results[key.position]
        return dataclasses.replace(call, leaves=tuple(leaves))


def can_stand_in(call: Call, program: Program) -> bool:
    """Whether a program may run in the place of the function: jitted, and pure."""
    if not isinstance(call.function, jax.stages.Wrapped):
        return False
    leaves = range(len(program.shape.leaves))
    return program.outputs == tuple(Key("out", i) for i in leaves)


def substitute(
    call: Call,
    program: Program,
    roles: Roles,
    *,
    policy: Policy | None = None,
    rollback: bool = False,
    in_place: bool = True,
) -> Substitute:
    """Return a program to run in the place of a jitted function, or beside another.

    Args:
        call: a call of it.
        program: its program.
        roles: what its values are.
        policy: what is measured; None nothing.
        rollback: hand back the old state and parameters where a step broke.
        in_place: whether it runs in the function's place, and donates what that does.
    """
    traced: CompiledTrace | None = None
    if policy is not None:
        traced = compiled_trace(
            program.closed,
            in_sites=source_sites(call, program, roles),
            policy=policy,
            measure="moments" if policy == "all" else "range",
            loss_outputs=roles.losses(program.outputs),
            spread=_is_spread(call),
        )
    carried = _carried(program, roles) if rollback else {}
    closed = program.closed

    def run(*args: Any) -> tuple[list[Any], Any, Any]:
        if traced is None:
            outs = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *args)
            rows = None
        else:
            outs, rows = traced.function(*args)
        floats = [x for x in outs if is_watchable(x)]
        table = measured(floats) if floats else None
        if rollback:
            outs = _gone_back(outs, args, carried)
        return outs, rows, table

    donated = donated_leaves(call, program) if in_place else ()
    options = compiler_options(call.function) if in_place else {}
    jitted = jax.jit(run, donate_argnums=donated, compiler_options=options or None)
    if traced is None:
        return Substitute(program, roles, traced, jitted, goes_back=rollback)
    sites, kept = _sites(call, program, roles, traced)
    return Substitute(program, roles, traced, jitted, sites, kept, rollback)


def _sites(
    call: Call, program: Program, roles: Roles, traced: CompiledTrace
) -> tuple[tuple[Site, ...], tuple[tuple[Key, int, int], ...]]:
    """Return the sites of every step and where its float results stand among them."""
    sites = list(traced.sites)
    kept: list[tuple[Key, int, int]] = []
    places = zip(program.outputs, program.closed.out_avals, traced.outputs, strict=True)
    for key, aval, parent in places:
        if is_watchable(aval):
            site = kept_site(call, program, roles, key, aval, parent)
            kept.append((key, len(sites), math.prod(aval.shape)))
            sites.append(dataclasses.replace(site, index=len(sites)))
    return tuple(sites), tuple(kept)


def _is_spread(call: Call) -> bool:
    """Whether the compiler lays the call's values out over several devices."""
    arrays = (x for x in call.given if isinstance(x, jax.Array))
    return any(len(x.sharding.device_set) > 1 for x in arrays)


def _carried(program: Program, roles: Roles) -> dict[int, int]:
    """Return, for each output that continues an argument, that argument's place."""
    at = {position: k for k, position in enumerate(program.inputs)}
    return {
        i: at[roles.was[key]]
        for i, key in enumerate(program.outputs)
        if roles.kept[key] in ("parameter", "state") and roles.was.get(key) in at
    }


def _gone_back(
    outs: list[Any], args: tuple[Any, ...], carried: dict[int, int]
) -> list[Any]:
    """Return the outputs with their state unchanged where a step broke.

    What broke is told by values that continue nothing, or something finite.
    """
    floats = [i for i, value in enumerate(outs) if is_watchable(value)]
    new = damaged([outs[i] for i in floats])
    old = damaged([args[carried[i]] for i in floats if i in carried])
    carries = [i in carried for i in floats]
    before = jnp.zeros(len(floats), bool)
    if any(carries):
        before = before.at[np.flatnonzero(carries)].set(old)
    bad = (new & ~before).any()
    return [
        _kept_where(bad, args[carried[i]], value) if i in carried else value
        for i, value in enumerate(outs)
    ]


def _kept_where(bad: jax.Array, old: Any, new: Any) -> Any:
    if old.shape != new.shape or old.dtype != new.dtype:
        return new
    return jax.lax.select_n(bad, new, old)


def _numbers(call: Call) -> list[int]:
    """Return which leaves a jit could trace, where it does not say what is static."""
    kinds = bool | int | float | complex
    leaves = enumerate(call.given)
    return [i for i, x in leaves if hasattr(x, "dtype") or isinstance(x, kinds)]


def donated_leaves(call: Call, program: Program) -> tuple[int, ...]:
    """Return which of a program's arguments the jitted function donates."""
    traced = call.function.trace(*call.args, **call.kwargs)  # type: ignore[attr-defined]
    flags = [info.donated for info in jax.tree.leaves(traced.args_info)]
    known = traced_leaves(call)
    dynamic = sorted(known) if known is not None else _numbers(call)
    if len(dynamic) != len(flags):
        dynamic = [i for i in dynamic if hasattr(call.given[i], "dtype")]
    if len(dynamic) != len(flags):
        return ()
    consumed = {i for i, flag in zip(dynamic, flags, strict=True) if flag}
    return tuple(k for k, i in enumerate(program.inputs) if i in consumed)
