# SPDX-License-Identifier: Apache-2.0
"""What an NPU does on overflow: keep Inf and NaN, or saturate.

In saturation mode an overflow gives the largest finite number, and NaN becomes 0:
then no NaN ever appears, and only the sticky overflow flag tells.

    chip                 mode
    910A, 310P           saturation only
    910B (A2), A3        Inf and NaN, saturation when the environment forces it
    950 (A5)             Inf and NaN only
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from numcheck_torch.npu.door import ask, module

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Contradiction", "OverflowMode", "contradiction", "default_mode", "mode"]

OverflowMode = Literal["inf_nan", "saturation"]
Contradiction = Literal[
    "chip_saturates_only",
    "chip_never_saturates",
    "disabled_without_force",
    "saturation_by_choice",
]
"""What the environment asks for and the chip cannot do, or had better not do."""

_A2: Final = 220  # Ascend910B1 in torch_npu's numbering of chips
_310B: Final = range(240, 250)
_A5: Final = 260  # Ascend950


def mode() -> OverflowMode | None:
    """Return the mode this process runs in; None where there is no NPU.

    torch_npu knows it; where it does not say, the chip and the environment decide,
    in the same order.
    """
    npu = module()
    if npu is None:
        return None
    answer = ask(npu, "utils.is_support_inf_nan")
    if isinstance(answer, bool):
        return "inf_nan" if answer else "saturation"
    soc = ask(npu, "utils.get_soc_version")
    return None if not isinstance(soc, int) else default_mode(soc, os.environ)


def default_mode(soc: int, environment: Mapping[str, str]) -> OverflowMode:
    """Return the mode that a chip and the environment give.

    Args:
        soc: torch_npu's number of the chip, as ``get_soc_version`` gives it.
        environment: environment variables.

    Example:
        >>> default_mode(104, {}), default_mode(220, {})
        ('saturation', 'inf_nan')
        >>> default_mode(220, {"INF_NAN_MODE_FORCE_DISABLE": "1"})
        'saturation'
    """
    if soc >= _A5:
        return "inf_nan"
    return "saturation" if _is_off(environment) or _only_saturates(soc) else "inf_nan"


def contradiction(soc: int, environment: Mapping[str, str]) -> Contradiction | None:
    """Return what is wrong between chip and environment; None when they agree.

    Example:
        >>> contradiction(104, {"INF_NAN_MODE_ENABLE": "1"})
        'chip_saturates_only'
    """
    if soc >= _A5:
        return "chip_never_saturates" if _is_off(environment) else None
    if _only_saturates(soc):
        asked = environment.get("INF_NAN_MODE_ENABLE") == "1"
        return "chip_saturates_only" if asked else None
    if environment.get("INF_NAN_MODE_FORCE_DISABLE") == "1":
        return "saturation_by_choice"
    return "disabled_without_force" if _is_off(environment) else None


def _only_saturates(soc: int) -> bool:
    return soc < _A2 or soc in _310B


def _is_off(environment: Mapping[str, str]) -> bool:
    return (
        environment.get("INF_NAN_MODE_ENABLE") == "0"
        or environment.get("INF_NAN_MODE_FORCE_DISABLE") == "1"
    )
