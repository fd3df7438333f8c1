# SPDX-License-Identifier: Apache-2.0
"""Short ways to record a program and to look at what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from numcheck.record.site import Site
from numcheck.record.trace import TraceBuilder
from numcheck_jax.recorder import record

if TYPE_CHECKING:
    from collections.abc import Callable

    from jax.extend.core import ClosedJaxpr

    from numcheck_jax.recorder import Recording


def traced(f: Callable[..., Any], *args: Any) -> tuple[ClosedJaxpr, list[Any]]:
    return jax.jit(f).trace(*args).jaxpr, jax.tree.leaves(args)


def input_sites(leaves: list[Any]) -> list[Site]:
    return [
        Site(
            index=0,
            op=f"input:{k}",
            phase="data",
            kind="source",
            role="input",
            effect="move",
            dtype=str(leaf.dtype),
            shape=tuple(leaf.shape),
        )
        for k, leaf in enumerate(leaves)
    ]


def recorded(
    f: Callable[..., Any], *args: Any, **options: Any
) -> tuple[TraceBuilder, Recording]:
    return replayed(*traced(f, *args), **options)


def replayed(
    closed: ClosedJaxpr, leaves: list[Any], **options: Any
) -> tuple[TraceBuilder, Recording]:
    builder = TraceBuilder(0)
    recording = record(
        closed, leaves, builder=builder, in_sites=input_sites(leaves), **options
    )
    return builder, recording


def births(builder: TraceBuilder) -> list[Site]:
    """Sites whose value is not finite although all that they read is."""

    def is_bad(index: int) -> bool:
        summary = builder.summaries.get(index)
        return summary is not None and summary.is_finite is False

    return [
        site
        for site in builder.sites
        if is_bad(site.index)
        and not site.literals
        and not any(is_bad(p) for p in site.parents)
    ]
