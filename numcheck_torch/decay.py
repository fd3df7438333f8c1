# SPDX-License-Identifier: Apache-2.0
"""What weight decay alone does to a weight at every step."""

from __future__ import annotations

import cmath
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["decay_gain"]


def decay_gain(optimizer: torch.optim.Optimizer) -> float | None:
    """Return what decay multiplies a weight by at each step, without any gradient.

    The largest magnitude over the groups in the long run; None where no group decays
    its weights themselves, as Adam's do not: there the decay is divided by its size.

    Example:
        >>> w = [torch.zeros(2, requires_grad=True)]
        >>> decay_gain(torch.optim.AdamW(w, lr=0.5, weight_decay=6.0))
        2.0
        >>> round(decay_gain(torch.optim.SGD(w, lr=0.1, weight_decay=0.1)), 3)
        0.99
    """
    gains = [_of_group(optimizer, group) for group in optimizer.param_groups]
    return max((gain for gain in gains if gain is not None), default=None)


def _of_group(
    optimizer: torch.optim.Optimizer, group: Mapping[str, Any]
) -> float | None:
    rate, decay = group.get("lr"), group.get("weight_decay")
    if rate is None or decay is None or float(decay) <= 0:
        return None
    taken = float(rate) * float(decay)
    if group.get("decoupled_weight_decay") or isinstance(optimizer, torch.optim.AdamW):
        return abs(1.0 - taken)
    if not isinstance(optimizer, torch.optim.SGD):
        return None
    momentum = float(group.get("momentum", 0.0))
    if group.get("nesterov"):
        return _radius(
            1.0 + momentum - taken * (1.0 + momentum), momentum * (1 - taken)
        )
    if momentum:
        taken *= 1.0 - float(group.get("dampening", 0.0))
    return _radius(1.0 + momentum - taken, momentum)


def _radius(trace: float, determinant: float) -> float:
    """Return the larger magnitude of a 2 x 2 matrix's eigenvalues.

    The matrix takes weight and velocity from one step to the next.
    """
    root = cmath.sqrt(trace * trace / 4.0 - determinant)
    return max(abs(trace / 2.0 + root), abs(trace / 2.0 - root))
