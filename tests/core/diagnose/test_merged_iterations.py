# SPDX-License-Identifier: Apache-2.0
"""Loops whose iterations were recorded as one site for each operator."""

from __future__ import annotations

import numpy as np

from numcheck.diagnose import Incident, diagnose
from numcheck.measure import summarize
from numcheck.record import Site, SourceLine, TraceBuilder

LINE = SourceLine("train.py", 3)


def test_several_products_of_one_line_are_one_rung_in_each_iteration() -> None:
    # x -> r * x * (1 - x), differentiated: each iteration scales by two factors, and
    # only together do they grow.
    rng = np.random.default_rng(0)
    gains = np.exp(rng.normal(0.5, 0.1, 170))
    state = np.cumprod(gains)
    builder = TraceBuilder(0)
    given = Site(0, "input:x", "data", kind="source", role="input", dtype="float32")
    at = builder.add(given, summarize(np.float32(0.3)))

    def product(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        nonlocal at
        with np.errstate(over="ignore"):
            held = summarize(values.astype(np.float32))
        site = Site(
            0, "mul", "backward", dtype="float32", family="mul", source=LINE,
            parents=(at,),
        )  # fmt: skip
        at = builder.add(site, held)

    product(state[:-2])
    product(state[:-2] * 0.01)
    product(state[-2:-1])
    product(state[-2:-1] * 0.01)
    product(state[-1:] * 1e6)
    kept = Site(
        0, "gradient:x", "backward", kind="kept", role="gradient", parents=(at,),
        dtype="float32",
    )  # fmt: skip
    builder.add(kept, summarize(np.float32(np.inf)))
    found = diagnose(Incident(builder.build(), 0))[0]
    assert found.cause is not None
    assert (found.id, found.cause.cls, found.cause.rule) == (
        "N101",
        "dynamics",
        "N756",
    )
