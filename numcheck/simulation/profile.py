# SPDX-License-Identifier: Apache-2.0
"""`Profile`: what a device's arithmetic does to each kind of operator."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from numcheck.record.site import Family
    from numcheck.simulation.rounding import Rounding

__all__ = ["Arithmetic", "Fused", "Profile", "Rule"]

Fused = Literal["wide", "truncate"]

DTYPES = ("float32", "float16", "bfloat16")
"""Dtypes a rule is about when it names none; float64 is left to itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Arithmetic:
    """How one operator computes.

    Attributes:
        input: what the factors of a product are rounded to; None leaves them as they
            are. Blocks run along the axis that is summed over.
        right: the same for the right factor, where it differs (a weight, in a
            layer's own product).
        gradient: the same for factors that are gradients, where it differs.
        accumulator: format of the running sum of products, convolutions, sums and
            means; None for float32 or wider.
        chunk: how many numbers are added up before the sum is rounded.
        output: what results are rounded to beyond the rounding of their dtype.
        saturate: whether overflow and Inf give the largest number of the dtype.
        nan_to_zero: whether NaN gives zero.
        fused: whether operators that hold several steps round in between
            (``truncate``) or only at the end (``wide``).
    """

    input: Rounding | None = None
    right: Rounding | None = None
    gradient: Rounding | None = None
    accumulator: Rounding | None = None
    chunk: int = 1
    output: Rounding | None = None
    saturate: bool = False
    nan_to_zero: bool = False
    fused: Fused = "wide"

    @property
    def is_plain(self) -> bool:
        """Whether it is what the framework does anyway."""
        return self == _PLAIN

    @property
    def rounds_factors(self) -> bool:
        """Whether a product differs before its result is rounded."""
        return any((self.input, self.right, self.gradient, self.accumulator))

    def factor(self, side: Literal["left", "right"]) -> Rounding | None:
        """Return what a factor that is no gradient is rounded to."""
        return self.right if side == "right" and self.right else self.input


_PLAIN = Arithmetic()


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One entry of a profile.

    Attributes:
        families: operators it is about; empty for all.
        dtypes: dtypes of the operands it is about.
        arithmetic: what they do.
    """

    families: frozenset[Family]
    dtypes: tuple[str, ...]
    arithmetic: Arithmetic

    def covers(self, family: Family, dtype: str) -> bool:
        """Whether it is about an operator of a family on operands of a dtype."""
        return dtype in self.dtypes and (not self.families or family in self.families)


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """The arithmetic of a device.

    Attributes:
        name: its name, or the file it came from.
        rules: what it does; the first that covers an operator counts.

    Example:
        >>> from numcheck.simulation import load
        >>> tpu = load("tpu-bf16")
        >>> tpu.arithmetic("matmul", "float32").input.format
        'bfloat16'
        >>> tpu.arithmetic("exp", "float32").is_plain
        True
    """

    name: str
    rules: tuple[Rule, ...] = ()

    @property
    def saturates(self) -> bool:
        """Whether an overflow anywhere gives the largest number, and no Inf.

        Example:
            >>> from numcheck.simulation import load
            >>> load("ascend910a").saturates, load("ascend910b").saturates
            (True, False)
        """
        return any(rule.arithmetic.saturate for rule in self.rules)

    def arithmetic(self, family: Family, dtype: str) -> Arithmetic:
        """Return how an operator computes.

        Args:
            family: kind of the operator, as in `numcheck.record.site`.
            dtype: dtype of its operands.
        """
        for rule in self.rules:
            if rule.covers(family, dtype):
                return rule.arithmetic
        return _PLAIN
