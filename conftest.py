# SPDX-License-Identifier: Apache-2.0
"""Every test and doctest starts as a fresh process would: no monitor is held."""

from __future__ import annotations

import pytest

from numcheck.monitor import Monitor


@pytest.fixture(autouse=True)
def _nothing_is_held() -> None:
    Monitor._held = None  # noqa: SLF001 - what an earlier test left in mid-step
