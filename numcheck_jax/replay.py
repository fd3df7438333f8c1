# SPDX-License-Identifier: Apache-2.0
"""One step run again, equation by equation, into a `Trace`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np

from numcheck.record.site import Site
from numcheck.record.trace import TraceBuilder
from numcheck_jax.compiled import compiled_trace
from numcheck_jax.recorder import record
from numcheck_jax.sentinel import is_watchable
from numcheck_jax.statistics import summarize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Phase
    from numcheck.record.trace import Trace
    from numcheck_jax.capture import Call
    from numcheck_jax.results import Key
    from numcheck_jax.roles import KeptRole, Roles
    from numcheck_jax.tracing import Program

__all__ = [
    "PHASES",
    "Replay",
    "arguments",
    "kept_name",
    "kept_site",
    "replay",
    "replay_compiled",
    "source_sites",
]

PHASES: Final[dict[KeptRole, Phase]] = {
    "gradient": "backward",
    "loss": "forward",
    "output": "forward",
    "parameter": "optimizer",
    "state": "optimizer",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Replay:
    """A step run again.

    Attributes:
        trace: every operator, sources and kept values.
        departures: by site index, against the float32 shadow; empty without one.
        kept: what the replay itself gave for each kept value.
        places: the site index of each kept value.
    """

    trace: Trace
    departures: Mapping[int, float]
    kept: Mapping[Key, Summary]
    places: Mapping[Key, int]


def replay(
    call: Call,
    program: Program,
    roles: Roles,
    *,
    shadow: Literal["float32"] | None = None,
    seen: Mapping[Key, Summary] | None = None,
    compares: bool = True,
) -> Replay:
    """Run a call's program on its own arguments and record every operator.

    Args:
        call: the call.
        program: its program.
        roles: what its values are to the user.
        shadow: run beside it its float32 lift.
        seen: what the user really got. Kept sites hold the replay's own values,
            unless only one of the two is finite: then what the user got counts.
        compares: False runs the shadow for what it compiled alone.
    """
    builder = TraceBuilder(call.step, call.rank)
    recording = record(
        program.closed,
        arguments(program, call.leaves),
        builder=builder,
        in_sites=source_sites(call, program, roles),
        loss_outputs=roles.losses(program.outputs),
        shadow=shadow,
        compares=compares,
    )
    own, places = _add_kept(
        builder, call, program, roles, recording.outs, recording.sites, seen or {}
    )
    departures = dict(recording.departures)
    for index in places.values():
        for parent in builder.sites[index].parents:
            if parent in departures:
                departures[index] = departures[parent]
    trace = builder.build(framework="jax", jax=jax.__version__)
    return Replay(trace, departures, own, places)


def replay_compiled(
    call: Call, program: Program, roles: Roles, seen: Mapping[Key, Summary]
) -> Replay:
    """Run a call's program compiled as a whole, with every value measured.

    The compiler simplifies, fuses and skips roundings, so this can break where the
    program as written does not, and the other way round.
    """
    traced = compiled_trace(
        program.closed,
        in_sites=source_sites(call, program, roles),
        policy="all",
        measure="full",
        loss_outputs=roles.losses(program.outputs),
    )
    outs, rows = jax.jit(traced.function)(*arguments(program, call.leaves))
    held = traced.summaries(rows)
    builder = TraceBuilder(call.step, call.rank)
    for site in traced.sites:
        builder.add(site, held.get(site.index))
    own, places = _add_kept(builder, call, program, roles, outs, traced.outputs, seen)
    trace = builder.build(framework="jax", jax=jax.__version__)
    return Replay(trace, {}, own, places)


def _add_kept(
    builder: TraceBuilder,
    call: Call,
    program: Program,
    roles: Roles,
    outs: Sequence[Any],
    parents: Sequence[int | None],
    seen: Mapping[Key, Summary],
) -> tuple[dict[Key, Summary], dict[Key, int]]:
    """Add a site for every float value handed back.

    Returns:
        What this run gave for each, and the index of its site.
    """
    own: dict[Key, Summary] = {}
    places: dict[Key, int] = {}
    for key, value, parent in zip(program.outputs, outs, parents, strict=True):
        if not is_watchable(value):
            continue
        array = jnp.asarray(value)
        summary = own[key] = summarize(array)
        real = seen.get(key)
        if real is not None and real.is_finite != summary.is_finite:
            summary = real
        site = kept_site(call, program, roles, key, array, parent)
        places[key] = builder.add(site, summary)
    return own, places


def arguments(program: Program, leaves: Sequence[Any]) -> list[Any]:
    """Return the program's flat arguments, as arrays of the dtypes it expects."""
    found = []
    for position, aval in zip(program.inputs, program.closed.in_avals, strict=True):
        leaf = leaves[position]
        if not isinstance(leaf, jax.Array):
            # A bare number keeps its weak type, which the results may inherit.
            is_bare = isinstance(leaf, bool | int | float | complex)
            is_weak = is_bare and getattr(aval, "weak_type", False)
            dtype = None if is_weak else aval.dtype
            leaf = jnp.asarray(leaf if is_weak else np.asarray(leaf), dtype=dtype)
        found.append(leaf)
    return found


def source_sites(call: Call, program: Program, roles: Roles) -> list[Site]:
    """Return the source site of each argument of the program."""
    sites = []
    for position, aval in zip(program.inputs, program.closed.in_avals, strict=True):
        role = roles.sources[position]
        family = "input" if role == "target" else role
        sites.append(
            Site(
                index=0,
                op=f"{family}:{call.names[position]}",
                phase="data",
                kind="source",
                role=role,
                effect="move",
                dtype=str(aval.dtype),
                shape=tuple(aval.shape),
            )
        )
    return sites


def kept_name(call: Call, program: Program, roles: Roles, key: Key) -> str:
    """Return the name of a kept value: ``loss``, ``gradient:params['w']``."""
    return roles.name(key, call, program.shape.name(key, call))


def kept_site(
    call: Call, program: Program, roles: Roles, key: Key, value: Any, parent: int | None
) -> Site:
    """Return the site of a value handed back.

    Args:
        call: the call.
        program: its program.
        roles: what its values are to the user.
        key: the value's place.
        value: the value, or anything with its shape and dtype.
        parent: the site whose value it is.
    """
    role = roles.kept[key]
    return Site(
        index=0,
        op=kept_name(call, program, roles, key),
        phase=PHASES[role],
        kind="kept",
        role=role,
        effect="move",
        dtype=str(value.dtype),
        shape=tuple(value.shape),
        parents=() if parent is None else (parent,),
    )
