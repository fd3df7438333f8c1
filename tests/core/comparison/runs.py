# SPDX-License-Identifier: Apache-2.0
"""Small runs of a few layers, to compare with one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numcheck.measure import summarize
from numcheck.record import Site, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.record import Trace

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def run(
    scopes: Sequence[str],
    values: Sequence[Array],
    weights: dict[str, Array],
    framework: str = "x",
) -> Trace:
    builder = TraceBuilder(0)
    for name, weight in weights.items():
        site = Site(0, f"parameter:{name}", "data", kind="source", role="parameter")
        builder.add(site, summarize(weight))
    for scope, value in zip(scopes, values, strict=True):
        site = Site(0, "dot", "forward", scope=scope, dtype=value.dtype.name)
        builder.add(site, summarize(value))
    return builder.build(framework=framework)


def layers(rng: np.random.Generator, depth: int) -> list[Array]:
    return [rng.normal(size=(4, 8)).astype(np.float32) for _ in range(depth)]


SCOPES = [f"blocks.{i}.up" for i in range(4)]
FLAX = [f"blocks_{i}/up" for i in range(4)]
