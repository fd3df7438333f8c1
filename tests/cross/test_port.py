# SPDX-License-Identifier: Apache-2.0
"""A port from one framework to the other agrees, or is told where it does not."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from numcheck.comparison import compare_traces
from tests.cross.ported_transformer import SAME, Difference, flax_trace, torch_trace

if TYPE_CHECKING:
    from numcheck.record import Trace


@functools.cache
def original(framework: str) -> Trace:
    return torch_trace() if framework == "torch" else flax_trace()


def test_the_same_transformer_agrees_in_both_frameworks() -> None:
    pair = original("torch"), original("flax")
    for a, b in (pair, pair[::-1]):
        comparison = compare_traces(a, b)
        kinds = {d.pair.a.kind for d in comparison.departures}
        assert {"parameter", "module", "kept"} <= kinds
        assert comparison.first_difference is None


@pytest.mark.parametrize(("port", "layer"), [("torch", 0), ("flax", 1)])
@pytest.mark.parametrize(
    ("difference", "place"),
    [
        (Difference(epsilon=1e-3), "norm1"),
        (Difference(causal=False), "proj"),
        (Difference(scaled=False), "proj"),
        (Difference(approximate_gelu=True), "act"),
        (Difference(transpose_up=True), "up"),
    ],
    ids=["epsilon", "mask", "scale", "gelu", "transposed"],
)
def test_a_difference_planted_in_a_port_is_named_at_its_layer(
    difference: Difference, place: str, port: str, layer: int
) -> None:
    changes = (difference, SAME) if layer == 0 else (SAME, difference)
    if port == "flax":
        pair = original("torch"), flax_trace(changes)
    else:
        pair = original("flax"), torch_trace(changes)
    for a, b in (pair, pair[::-1]):
        first = compare_traces(a, b).first_difference
        assert first is not None
        assert first.pair.a.path[-3:] == ("blocks", str(layer), place)
