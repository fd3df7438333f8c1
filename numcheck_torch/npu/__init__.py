# SPDX-License-Identifier: Apache-2.0
"""Ascend NPUs: the only part of numcheck that knows torch_npu.

Everything here works without it, and then says that there is no NPU.
"""

from __future__ import annotations

from numcheck_torch.npu.attention import is_fused_attention, mask_facts
from numcheck_torch.npu.debug_level import DebugLevel, kernel_debugging
from numcheck_torch.npu.detection import Detection, overflow_detection
from numcheck_torch.npu.door import has_npu, is_npu
from numcheck_torch.npu.facts import device_facts
from numcheck_torch.npu.families import classify_npu
from numcheck_torch.npu.flag import OverflowFlag, overflow_flag
from numcheck_torch.npu.layout import has_padding
from numcheck_torch.npu.lens import Lens, lens
from numcheck_torch.npu.mode import OverflowMode, mode
from numcheck_torch.npu.selftest import blind_reductions, untrusted_reductions
from numcheck_torch.npu.stand_in import simulated

__all__ = [
    "DebugLevel",
    "Detection",
    "Lens",
    "OverflowFlag",
    "OverflowMode",
    "blind_reductions",
    "classify_npu",
    "device_facts",
    "has_npu",
    "has_padding",
    "is_fused_attention",
    "is_npu",
    "kernel_debugging",
    "lens",
    "mask_facts",
    "mode",
    "overflow_detection",
    "overflow_flag",
    "simulated",
    "untrusted_reductions",
]
