# SPDX-License-Identifier: Apache-2.0
"""The list of scalars that were read is for people, and short."""

from __future__ import annotations

import pytest

from numcheck.record import Event
from numcheck.report.coverage import Coverage

READ = [
    Event("loss", 0, 1.0),
    Event("gradient_norm", 0, 2.0),
    Event("my_metric", 0, 3.0),
    Event("headroom backward out/aten.mm.default 2", 0, 4.0),
    Event("headroom backward out/aten.mm.default 2", 1, 4.0),
    Event("headroom forward aten.mul.Tensor 2", 1, 4.0),
    Event("note", 0, "said elsewhere"),
]


def test_headrooms_are_counted_and_not_listed() -> None:
    said = list(Coverage(None, READ).seen("en"))
    assert said == [
        "scalars read at every step: loss, gradient norm, my_metric",
        "scalars of the recorded steps: headroom of 2 tensors",
    ]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_name_of_an_operator_is_among_them(lang: str) -> None:
    assert "aten" not in "".join(Coverage(None, READ).seen(lang))
