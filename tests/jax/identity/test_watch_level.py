# SPDX-License-Identifier: Apache-2.0
"""In level watch the user gets his own program's results, bit for bit."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import numcheck_jax
from tests.jax.identity.programs import PROGRAMS


def assert_bit_equal(got: Any, wanted: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("lag", [0, 1])
def test_watched_results_are_the_plain_ones_bit_for_bit(name: str, lag: int) -> None:
    function, args, kwargs = PROGRAMS[name]
    step = numcheck_jax.instrument(function, audit_first=False, lag=lag)
    for _ in range(2):
        assert_bit_equal(step(*args, **kwargs), function(*args, **kwargs))
    step.numcheck.close()
    assert step.numcheck.findings == ()
    assert [e for e in step.numcheck.events if e.name == "fault"] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_audited_first_step_gives_the_plain_results_and_no_error(name: str) -> None:
    function, args, kwargs = PROGRAMS[name]
    step = numcheck_jax.instrument(function)
    assert_bit_equal(step(*args, **kwargs), function(*args, **kwargs))
    step.numcheck.close()
    assert [f for f in step.numcheck.findings if f.severity == "error"] == []
    assert [e for e in step.numcheck.events if e.name == "fault"] == []
    assert step.numcheck.trace is not None
