# SPDX-License-Identifier: Apache-2.0
"""The simulated device that a model runs on, where one takes an NPU's place."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from numcheck_torch.simulation.machine import Machine

__all__ = ["simulated"]


def simulated(model: torch.nn.Module) -> Machine | None:
    """Return the device that is simulated for a model, or for a part of it.

    Example:
        >>> import torch
        >>> import numcheck_torch
        >>> model = torch.nn.Linear(2, 1)
        >>> simulated(model) is None
        True
        >>> model = numcheck_torch.simulate(model, "ascend910a")
        >>> simulated(model) is model.simulation.machine
        True
    """
    known = sys.modules.get("numcheck_torch.simulation.attach")
    if known is None:
        return None
    held = (getattr(part, "simulation", None) for part in model.modules())
    found = (s for s in held if isinstance(s, known.Simulation))
    return next((s.machine for s in found), None)
