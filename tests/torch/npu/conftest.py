# SPDX-License-Identifier: Apache-2.0
"""Every test here finds the simulated device installed, as a healthy 910B1."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

from tests.torch.npu.device import NpuTensor, chip, install

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _npu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install()
    # On a real NPU tensors are plain; only the simulation needs a class of its own.
    for name in ("recorder", "check_numerics"):
        module = importlib.import_module(f"numcheck_torch.{name}")
        monkeypatch.setattr(module, "_PLAIN", module._PLAIN | {NpuTensor})
    for name in ("INF_NAN_MODE_ENABLE", "INF_NAN_MODE_FORCE_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    with chip():
        yield
