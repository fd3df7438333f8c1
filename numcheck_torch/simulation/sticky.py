# SPDX-License-Identifier: Apache-2.0
"""The sticky overflow flag of a simulated device that saturates.

It answers to the names that the real one answers to, so whoever reads that one reads
this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_iter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["StickyFlag"]


class StickyFlag:
    """One flag for all that a simulated device runs; set once, it stays set."""

    def __init__(self) -> None:
        self._is_set = False

    def get_npu_overflow_flag(self) -> bool:
        """Return whether anything overflowed since it was cleared."""
        return self._is_set

    def clear_npu_overflow_flag(self) -> None:
        """Clear it."""
        self._is_set = False

    def look(
        self, result: Any, operands: Any, *, factor_limit: float | None = None
    ) -> None:
        """Set it where finite operands gave something that is not.

        An infinite operand is exact, and raises nothing (IEEE 754-2019 §6.1).

        Args:
            result: what an operator gave, before it is settled.
            operands: what it was given; those it wrote into count as finite.
            factor_limit: the largest number a factor can be, where larger ones are cut
                off before they are multiplied.
        """
        if self._is_set:
            return
        written = {id(leaf) for leaf in tree_iter(result)}
        given = [t for t in _floats(operands) if id(t) not in written]
        if not all(map(_is_finite, _floats(result))):
            self._is_set = all(map(_is_finite, given))
        elif factor_limit is not None:
            self._is_set = any(_exceeds(t, factor_limit) for t in given)

    def unscale(
        self,
        gradients: Sequence[torch.Tensor],
        found_inf: torch.Tensor,
        inverse: torch.Tensor,
    ) -> None:
        """Unscale gradients as torch_npu does in saturation mode: judged by the flag.

        Where it is set, they are left as they are, and the flag is cleared.
        """
        if self._is_set:
            found_inf.fill_(1.0)
            self._is_set = False
            return
        for gradient in gradients:
            gradient.mul_(inverse)


def _floats(tree: Any) -> Iterator[torch.Tensor]:
    for leaf in tree_iter(tree):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            yield leaf


def _is_finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _exceeds(tensor: torch.Tensor, limit: float) -> bool:
    return bool((tensor.isfinite() & (tensor.abs() > limit)).any())
