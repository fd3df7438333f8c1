# SPDX-License-Identifier: Apache-2.0
"""In these tests a missing text or field is an error, never shown by its key."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def strict_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `text` raise instead of falling back."""
    monkeypatch.setenv("NUMCHECK_STRICT_MESSAGES", "1")
