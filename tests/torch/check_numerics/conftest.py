# SPDX-License-Identifier: Apache-2.0
"""Monitors of other tests may still be in the middle of a step."""

from __future__ import annotations

import pytest

from numcheck_torch.boundary import BOUNDARY


@pytest.fixture(autouse=True)
def _only_monitors_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BOUNDARY, "_open", [])
