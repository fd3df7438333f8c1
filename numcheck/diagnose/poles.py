# SPDX-License-Identifier: Apache-2.0
"""Whether an operator met a point where its function has no finite value."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["is_at_pole"]


def is_at_pole(scene: Scene) -> bool:
    """Whether the operands, not their size, explain the non-finite result."""
    family, base = scene.site.family, scene.operand(0)
    if family in ("div", "reciprocal"):
        return scene.denominator.has_zero
    if family == "rsqrt":
        return base.has_zero or base.has_negative
    if family == "pow":
        return base.has_zero or base.has_negative
    if family == "log":
        return base.has_zero or base.has_negative
    if family in ("sqrt", "inverse_bounded"):
        return scene.kind == "nan"
    sums = ("matmul", "conv", "sum", "mean", "collective")
    overflows = (*sums, "exp", "square", "cast", "mul")
    return scene.kind == "nan" and family not in overflows
