# SPDX-License-Identifier: Apache-2.0
"""Whether this device's reductions can be trusted to show a NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import torch

from numcheck_torch.npu.door import is_npu
from numcheck_torch.npu.mode import mode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["blind_reductions", "untrusted_reductions"]

_REDUCTIONS: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "amax": lambda x: x.amax(),
    "amin": lambda x: x.amin(),
    "sum": lambda x: x.sum(),
    "foreach_norm": lambda x: torch._foreach_norm([x], 2, dtype=torch.float32)[0],
}
# Enough for a kernel to work in blocks, where some drop a NaN at the end.
_SIZE: Final = 4099


def blind_reductions(
    device: torch.device | str, dtype: torch.dtype = torch.float32
) -> tuple[str, ...]:
    """Return the reductions that lose a NaN on a device; empty when all show it.

    In saturation mode a NaN does not survive its first operator, so there every one
    of them is blind: the overflow flag takes their place.

    Args:
        device: where to try.
        dtype: format to try.

    Example:
        >>> blind_reductions("cpu")
        ()
    """
    values = torch.ones(_SIZE, dtype=dtype)
    blind = []
    for name, reduce in _REDUCTIONS.items():
        for place in (0, _SIZE - 1):
            poisoned = values.clone()
            poisoned[place] = math.nan
            if not math.isnan(float(reduce(poisoned.to(device)))):
                blind.append(name)
                break
    return tuple(blind)


def untrusted_reductions(model: torch.nn.Module) -> tuple[str, ...]:
    """Return the reductions that lose a NaN where a model is; asked on an NPU only.

    In saturation mode there is no NaN to lose.

    Example:
        >>> untrusted_reductions(torch.nn.Linear(2, 1))
        ()
    """
    parameter = next(model.parameters(), None)
    if parameter is None or not is_npu(parameter.device) or mode() == "saturation":
        return ()
    return blind_reductions(parameter.device)
