# SPDX-License-Identifier: Apache-2.0
"""A port from one framework to the other agrees, or is told where it does not."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from numcheck.comparison import compare_traces
from tests.cross.ported_block import Difference, flax_trace, torch_trace

if TYPE_CHECKING:
    from numcheck.record import Trace


@functools.cache
def reference() -> Trace:
    return torch_trace()


def test_the_same_block_agrees_in_both_frameworks() -> None:
    flax = flax_trace(Difference())
    for pair in ((reference(), flax), (flax, reference())):
        comparison = compare_traces(*pair)
        kinds = {d.pair.a.kind for d in comparison.departures}
        assert {"parameter", "module", "kept"} <= kinds
        assert comparison.first_difference is None


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
def test_a_planted_difference_is_named_at_its_layer(
    difference: Difference, place: str
) -> None:
    flax = flax_trace(difference)
    for pair in ((reference(), flax), (flax, reference())):
        first = compare_traces(*pair).first_difference
        assert first is not None
        assert place in first.pair.a.path
