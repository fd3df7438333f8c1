# SPDX-License-Identifier: Apache-2.0
"""Facts call an operand by what the program was given, where it is only that."""

from __future__ import annotations

import math

import pytest

from numcheck.diagnose import Incident, diagnose
from numcheck.measure.summary import Summary
from numcheck.record import Site, TraceBuilder

FINE = Summary(
    n=4, nan=0, pos_inf=0, neg_inf=0, zero=0, low=1.0, high=300.0, amax=300.0, amin=1.0
)
OVER = Summary(n=4, nan=0, pos_inf=1, neg_inf=0, zero=0, low=1.0, high=math.inf)


def names(effects: list[str]) -> list[str]:
    """Names in the facts of a product whose weight passed through these effects."""
    builder = TraceBuilder(0)
    x = builder.add(Site(0, "input:x", "data", "source", "input"), FINE)
    at = builder.add(Site(0, "parameter:w", "data", "source", "parameter"), FINE)
    for effect in effects:
        site = Site(0, effect, "forward", effect=effect, parents=(at,), scope="net")  # type: ignore[arg-type]
        at = builder.add(site, FINE)
    product = Site(
        0, "mm", "forward", parents=(x, at), family="matmul", dtype="float16"
    )
    at = builder.add(product, OVER)
    builder.add(Site(0, "loss", "forward", "kept", "loss", parents=(at,)), OVER)
    (finding,) = diagnose(Incident(builder.build(), 0))
    return [fact.name for fact in finding.facts]


@pytest.mark.parametrize(
    ("effects", "name"),
    [
        ([], "parameter:w"),
        (["move", "cast"], "parameter:w"),
        (["compute"], "net/compute"),
        (["compute", "cast"], "net/cast"),
        (["compute", "move", "move"], "net/compute"),
        (["compute", "cast", "move"], "net/cast"),
    ],
    ids=["plain", "moved", "computed", "and-cast", "and-moved", "cast-and-moved"],
)
def test_a_moved_weight_is_still_the_weight(effects: list[str], name: str) -> None:
    assert names(effects) == ["input:x", name, "mm"]
