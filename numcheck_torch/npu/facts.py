# SPDX-License-Identifier: Apache-2.0
"""What is known of the NPU a model trains on, as settings for the rules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from numcheck_torch.npu.door import ask, is_npu, module
from numcheck_torch.npu.mode import contradiction, mode

if TYPE_CHECKING:
    import torch

    from numcheck.diagnose.incident import Setting

__all__ = ["device_facts"]

_SWITCHES: Final = {
    "hf32_conv": "conv.allow_hf32",
    "hf32_matmul": "matmul.allow_hf32",
    "bfloat16_supported": "is_bf16_supported",
}


def device_facts(device: torch.device) -> dict[str, Setting]:
    """Return chip, overflow mode and precision switches; empty for other devices.

    Nothing waits for the device.

    Returns:
        ``chip``, ``overflow_mode``, ``mode_contradiction`` where chip and environment
        disagree, ``hf32_conv``, ``hf32_matmul``, ``bfloat16_supported``,
        ``cube_math_type`` where products were told their precision, and
        ``launch_blocking`` when operators are run one by one. A switch this version
        does not know is left out.

    Example:
        >>> import torch
        >>> device_facts(torch.device("cpu"))
        {}
    """
    npu = module()
    if npu is None or not is_npu(device):
        return {}
    facts: dict[str, Setting] = {}
    chip = ask(npu, "get_device_name")
    if isinstance(chip, str):
        facts["chip"] = chip
    held = mode()
    if held is not None:
        facts["overflow_mode"] = held
    soc = ask(npu, "utils.get_soc_version")
    wrong = contradiction(soc, os.environ) if isinstance(soc, int) else None
    if wrong is not None:
        facts["mode_contradiction"] = wrong
    for name, path in _SWITCHES.items():
        value = ask(npu, path)
        if isinstance(value, bool):
            facts[name] = value
    cube = ask(npu, "matmul.cube_math_type")
    if cube is not None:
        facts["cube_math_type"] = str(getattr(cube, "name", cube))
    if os.environ.get("ASCEND_LAUNCH_BLOCKING") == "1":
        facts["launch_blocking"] = True
    return facts
