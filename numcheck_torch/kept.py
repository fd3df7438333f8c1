# SPDX-License-Identifier: Apache-2.0
"""What a run of a step hands back: its names, its summaries, and whether two agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from numcheck_torch.sentinel import local
from numcheck_torch.statistics import summarize

if TYPE_CHECKING:
    from numcheck.measure.summary import Summary
    from numcheck_torch.replay import Outcomes

__all__ = ["are_equal", "kept_values", "output_name"]


def kept_values(found: Outcomes) -> dict[str, Summary]:
    """Return what a run's kept values held, named as in its trace."""
    named = [(f"gradient:{n}", g) for n, g in found.gradients.items()]
    named += [("loss", loss) for loss in found.losses]
    named += [(output_name(n), output) for n, output in found.outputs]
    kept: dict[str, Summary] = {}
    for name, tensor in named:
        held = summarize(local(tensor))
        kept[name] = kept[name].merge(held) if name in kept else held
    return kept


def output_name(path: str) -> str:
    """Return the op of the kept site of a module's output.

    Example:
        >>> output_name(""), output_name("logits")
        ('output', 'output:logits')
    """
    return f"output:{path}" if path else "output"


def are_equal(a: Outcomes, b: Outcomes) -> bool:
    """Whether two runs gave the same gradients and losses; NaN equals NaN."""
    if a.gradients.keys() != b.gradients.keys() or len(a.losses) != len(b.losses):
        return False
    pairs = [(a.gradients[n], b.gradients[n]) for n in a.gradients]
    pairs += list(zip(a.losses, b.losses, strict=True))
    return all(
        x.dtype == y.dtype and torch.equal(x.nan_to_num(), y.nan_to_num())
        for x, y in pairs
    )
