# SPDX-License-Identifier: Apache-2.0
"""Draws from NumPy's own generator are noticed and put back, whatever its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numcheck_torch.host_random import HostRandom, HostState

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=[np.random.MT19937, np.random.PCG64, np.random.Philox])
def _kind(request: pytest.FixtureRequest) -> Iterator[None]:
    before: Any = np.random.get_bit_generator()
    np.random.set_bit_generator(request.param(0))
    yield
    np.random.set_bit_generator(before)


@pytest.mark.usefixtures("_kind")
def test_a_draw_is_noticed_and_can_be_repeated() -> None:
    host = HostRandom()
    taken = host.before()
    drawn = np.random.rand(3)  # noqa: NPY002 - what is tested
    assert isinstance(host.after(taken), HostState)
    taken.restore()
    assert np.array_equal(np.random.rand(3), drawn)  # noqa: NPY002 - what is tested


@pytest.mark.usefixtures("_kind")
def test_a_call_that_draws_nothing_keeps_nothing() -> None:
    host = HostRandom()
    assert host.after(host.before()) is None
