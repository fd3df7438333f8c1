# SPDX-License-Identifier: Apache-2.0
"""What PyTorch can do on this machine, for ``numcheck doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from numcheck.doctor import Check
from numcheck_torch.npu.doctor import examine_npu
from numcheck_torch.npu.selftest import blind_reductions

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["examine"]


def examine() -> Iterator[Check]:
    """Yield PyTorch's version, its devices, and whether they show a NaN."""
    yield Check("torch", "ok", "torch", {"version": torch.__version__})
    yield from _reductions("cpu")
    if torch.cuda.is_available():
        for place in range(torch.cuda.device_count()):
            known = {
                "place": f"cuda:{place}",
                "name": torch.cuda.get_device_name(place),
            }
            yield Check("torch", "ok", "device", known)
            yield from _reductions(f"cuda:{place}")
    if torch.backends.mps.is_available():
        yield Check("torch", "ok", "mps")
    yield from examine_npu()


def _reductions(device: str) -> Iterator[Check]:
    blind = blind_reductions(device)
    if blind:
        lost = {"device": device, "reductions": ", ".join(blind)}
        yield Check("torch", "problem", "nan_lost", lost)
    else:
        yield Check("torch", "ok", "nan_shows", {"device": device})
