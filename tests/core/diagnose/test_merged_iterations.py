# SPDX-License-Identifier: Apache-2.0
"""Loops in whose iterations one line runs several operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from numcheck.diagnose import Incident, diagnose
from numcheck.measure import summarize
from numcheck.record import Site, SourceLine, TraceBuilder

LINE = SourceLine("train.py", 3)


def state() -> Any:
    """Return a state that grows from iteration to iteration, though not evenly."""
    return np.cumprod(np.exp(np.random.default_rng(0).normal(0.5, 0.1, 170)))


def one_by_one() -> list[tuple[Any, tuple[int, ...]]]:
    """Return two products of each iteration, the second a hundredth of the first."""
    return [(v * f, (i,)) for i, v in enumerate(state()[:-1]) for f in (1, 0.01)]


def merged() -> list[tuple[Any, tuple[int, ...]]]:
    """Return the same with all but the last iteration as one site each."""
    early, last = state()[:-2], state()[-2]
    return [(early, ()), (early * 0.01, ()), (last, (168,)), (last * 0.01, (168,))]


@pytest.mark.parametrize("products", [one_by_one(), merged()])
def test_several_products_of_one_line_are_one_rung_in_each_iteration(
    products: Any,
) -> None:
    builder = TraceBuilder(0)
    given = Site(0, "input:x", "data", kind="source", role="input", dtype="float32")
    at = builder.add(given, summarize(np.float32(0.3)))
    for values, iteration in [*products, (state()[-1] * 1e6, (169,))]:
        with np.errstate(over="ignore"):
            held = summarize(np.float32(values))
        site = Site(
            0, "mul", "backward", dtype="float32", family="mul", source=LINE,
            parents=(at,), iteration=iteration,
        )  # fmt: skip
        at = builder.add(site, held)
    kept = Site(
        0, "gradient:x", "backward", kind="kept", role="gradient", parents=(at,),
        dtype="float32",
    )  # fmt: skip
    builder.add(kept, summarize(np.float32(np.inf)))
    found = diagnose(Incident(builder.build(), 0))[0]
    assert found.cause is not None
    assert found.id == "N101"
    assert (found.cause.cls, found.cause.rule) == ("dynamics", "N756")
