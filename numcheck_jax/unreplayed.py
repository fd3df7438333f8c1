# SPDX-License-Identifier: Apache-2.0
"""The trace of a step that cannot be run again: what went in and what came out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from numcheck.record.site import Site
from numcheck.record.trace import TraceBuilder
from numcheck_jax.capture import is_deleted
from numcheck_jax.replay import PHASES
from numcheck_jax.roles import Roles, name_role
from numcheck_jax.sentinel import is_watchable
from numcheck_jax.statistics import summarize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.diagnose.finding import Finding
    from numcheck.measure.summary import Summary
    from numcheck.record.trace import Trace
    from numcheck_jax.capture import Call
    from numcheck_jax.results import Key, Result
    from numcheck_jax.roles import SourceRole

__all__ = ["guessed_roles", "outline", "together"]


def guessed_roles(call: Call, result: Result, loss: Key | None) -> Roles:
    """Return roles as far as names tell them, for a function without a program."""
    kept = {key: name_role(result.name(key, call)) for key, _ in result.items()}
    for key in kept:
        if key.kind == "after":
            kept[key] = "state"
    if loss is not None:
        kept[loss] = "loss"
    sources: dict[int, SourceRole] = {
        i: "input"
        for i, leaf in enumerate(call.leaves)
        if isinstance(leaf, jax.Array | np.ndarray | np.generic)
    }
    return Roles(kept, {}, sources)


def outline(
    call: Call, result: Result, roles: Roles, seen: Mapping[Key, Summary]
) -> Trace:
    """Return a trace without operators.

    Every value handed back counts as made from every argument, so that a bad argument
    is still found.
    """
    builder = TraceBuilder(call.step, call.rank)
    sources = tuple(
        builder.add(_source(call, i, role), _summary(call.leaves[i]))
        for i, role in roles.sources.items()
        if is_watchable(call.leaves[i])
    )
    for key, summary in seen.items():
        role = roles.kept.get(key, "output")
        name = roles.name(key, call, result.name(key, call))
        builder.add(
            Site(
                index=0,
                op=name,
                phase=PHASES[role],
                kind="kept",
                role=role,
                effect="move",
                parents=sources,
            ),
            summary,
        )
    return builder.build(framework="jax", jax=jax.__version__)


def together(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings, those of unknown origin as one.

    Of a step without operators each broken value looks like a fault of its own.
    """
    unknown = [f for f in findings if f.id == "N903"]
    if len(unknown) < 2:
        return tuple(findings)
    first = unknown[0]
    harm = dict.fromkeys(site for f in unknown for site in f.harm)
    merged = dataclasses.replace(first, harm=tuple(harm))
    rest = tuple(f for f in findings if f.id != "N903")
    return (merged, *rest)


def _source(call: Call, position: int, role: SourceRole) -> Site:
    leaf = call.leaves[position]
    return Site(
        index=0,
        op=f"{'input' if role == 'target' else role}:{call.names[position]}",
        phase="data",
        kind="source",
        role=role,
        effect="move",
        dtype=str(getattr(leaf, "dtype", "float64")),
        shape=tuple(np.shape(leaf)),
    )


def _summary(leaf: Any) -> Summary | None:
    """Return what a leaf holds; None when its buffer was consumed."""
    if is_deleted(leaf):
        return None
    return summarize(jnp.asarray(leaf))
