# SPDX-License-Identifier: Apache-2.0
"""Every test here finds the simulated device installed, as a healthy 910B1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torch.npu.device import chip, install, treat_as_plain

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _npu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install()
    treat_as_plain(monkeypatch)
    for name in ("INF_NAN_MODE_ENABLE", "INF_NAN_MODE_FORCE_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    with chip():
        yield
