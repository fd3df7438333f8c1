# SPDX-License-Identifier: Apache-2.0
"""Averages whose step is computed in float32 and added in fewer bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from numcheck.diagnose import diagnose
from tests.core.diagnose.story import Story


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (3.0, ["N401"]),  # half of its value away: its steps of a thousandth are lost
        (2.02, []),  # has all but arrived
    ],
)
def test_the_rate_of_an_average_is_read_before_its_step_is_converted(
    target: float, told: list[str]
) -> None:
    story = Story()
    weights = story.source("parameter", np.full(4, target, np.float32), "w")
    average = story.source("state", np.full(4, 2.0, ml_dtypes.bfloat16), "average")
    gap = story.op("sub", lambda w, e: w - np.float32(e), weights, average)
    step = story.op("mul", np.multiply, gap, 0.001)
    kept = story.op("add", np.add, average, story.cast(step, "bfloat16"))
    story.keep("state", kept, "average")
    assert [f.id for f in diagnose(story.incident(audited=True))] == told
