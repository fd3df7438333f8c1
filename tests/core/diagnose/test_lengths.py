# SPDX-License-Identifier: Apache-2.0
"""Lengths that a batch brings along, as divisors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from numcheck.diagnose import diagnose
from tests.core.diagnose.story import Story

f32 = np.float32


@pytest.mark.parametrize(
    ("lengths", "told_as"),
    [
        (np.int32([3, 0]), ("N304", "data", "N054")),
        (f32([3, 0]), ("N304", "op-domain", "N351")),
    ],
)
def test_a_length_of_the_batch_that_is_zero_is_an_empty_group(
    lengths: Any, told_as: tuple[str, str, str]
) -> None:
    story = Story()
    w = story.source("parameter", f32([1, 0]), "w")
    n = story.source("input", lengths, "n")
    story.keep("loss", story.op("div", np.divide, w, story.cast(n, "float32")))
    found = diagnose(story.incident())[0]
    assert found.cause is not None
    assert (found.id, found.cause.cls, found.cause.rule) == told_as
