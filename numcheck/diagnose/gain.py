# SPDX-License-Identifier: Apache-2.0
"""How much the weights of a step amplify: their size against their fan-in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.measure import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["largest_gain"]


def largest_gain(view: StepView, products: Iterable[Site]) -> float:
    """Return the largest root-mean-square gain of a weight that a product reads.

    For weights of root mean square s and fan-in n the gain is s·√n: about one for
    the usual initialisations (He: √2). 0 where no weight was measured.
    """
    return max((_gain(view, site) for site in products), default=0.0)


def _gain(view: StepView, product: Site) -> float:
    found = 0.0
    for parent in view.parents(product):
        weight = source_of(view, parent)
        if weight is not None and weight.role != "parameter":
            weight = None
        summary = None if weight is None else view.summary(weight)
        rms = None if summary is None else _rms(summary)
        if weight is None or rms is None:
            continue
        if product.family == "conv":
            found = max(found, rms * math.sqrt(_fan_in(weight, product)))
            continue
        others = [p for p in view.parents(product) if p is not parent and p.shape]
        shared = [
            p.shape[-1]
            for p in others
            if p.shape[-1] in weight.shape and len(p.shape) > 1
        ]
        if shared and len(weight.shape) > 1:
            found = max(found, rms * math.sqrt(max(shared)))
    return found


def _fan_in(kernel: Site, product: Site) -> int:
    """Return how many products a convolution sums: its kernel's size by channels out.

    Either both shapes have the channels that come out early, or both have them last.
    """
    first = product.shape[1:2] == kernel.shape[:1]
    channels = kernel.shape[0 if first else -1] if kernel.shape else 1
    return math.prod(kernel.shape) // max(channels, 1)


def _rms(weight: Summary) -> float | None:
    """Return the root mean square, or the least it can be; None when not measured.

    On a device without float64 the squares of large weights have no sum, but their
    largest alone makes up for a part of it.
    """
    if weight.total_sq is not None:
        return math.sqrt(weight.total_sq / max(weight.n, 1))
    return None if weight.amax is None else weight.amax / math.sqrt(max(weight.n, 1))
