# SPDX-License-Identifier: Apache-2.0
"""Curves keep every extreme and every kind of non-finite value."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from numcheck.record.trace import Event
from numcheck.report.curves import curves


def loss(*values: float, rank: int = 0) -> list[Event]:
    """Returns one loss a step."""
    return [Event("loss", step, value, rank) for step, value in enumerate(values)]


def test_texts_are_no_curve() -> None:
    assert curves([Event("note", 0, "step not audited")]) == []


def test_non_finite_values_stay_in_their_place() -> None:
    (curve,) = curves(loss(1.0, math.nan, math.inf, -math.inf, 2.0))
    assert curve["values"] == [1.0, "NaN", "Inf", "-Inf", 2.0]
    assert curve["steps"] == [0, 1, 2, 3, 4]
    assert not curve["thinned"]


def test_of_several_ranks_the_lowest_is_shown() -> None:
    (curve,) = curves([*loss(1.0, 2.0, rank=3), *loss(5.0, 6.0, rank=1)])
    assert curve["values"] == [5.0, 6.0]


def test_steps_are_put_in_order() -> None:
    (curve,) = curves([Event("loss", 9, 1.0), Event("loss", 2, 3.0)])
    assert curve["steps"] == [2, 9]


@given(
    st.lists(st.floats(), min_size=1, max_size=400),
    st.integers(12, 60),
)
def test_thinning_keeps_extremes_and_whether_anything_is_not_finite(
    values: list[float], most: int
) -> None:
    (curve,) = curves(loss(*values), most)
    kept = curve["values"]
    finite = [v for v in values if math.isfinite(v)]
    shown = [v for v in kept if isinstance(v, float)]
    assert len(kept) <= max(most, 3) + 3
    assert curve["steps"] == sorted(curve["steps"])
    assert (max(shown), min(shown)) == (max(finite), min(finite)) if finite else True
    assert any(isinstance(v, str) for v in kept) == (len(finite) < len(values))
    assert curve["thinned"] == (len(kept) < len(values))


def test_a_curve_is_named_for_people_in_both_languages() -> None:
    events = [Event("headroom backward mlp/mm 2 (jax)", s, 1.0 + s) for s in (0, 9)]
    (curve,) = curves(events)
    assert curve["name"] == {
        "en": "headroom of mlp/mm 2 (backward) (jax)",
        "zh": "mlp/mm 2（反向） 的余量 (jax)",
    }


def test_a_single_value_of_an_audit_is_no_curve_but_a_single_loss_is() -> None:
    once = [Event("update_ratio (jax)", 0, 4.0), Event("embedding_norm w", 0, 4.0)]
    assert curves(once) == []
    (curve,) = curves([*once, Event("loss", 0, 2.0)])
    assert curve["name"]["en"] == "loss"
