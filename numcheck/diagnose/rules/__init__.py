# SPDX-License-Identifier: Apache-2.0
"""What broke: rules over an origin, one idea a file, asked in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.bad_source import BadSource
from numcheck.diagnose.rules.base import Match, Rule
from numcheck.diagnose.rules.cast_overflow import CastOverflow
from numcheck.diagnose.rules.decomposition import Decomposition
from numcheck.diagnose.rules.derivative import Derivative
from numcheck.diagnose.rules.division import Division
from numcheck.diagnose.rules.domain import Domain
from numcheck.diagnose.rules.empty_reduction import EmptyReduction
from numcheck.diagnose.rules.exponential import Exponential
from numcheck.diagnose.rules.fused_mask import FusedMask
from numcheck.diagnose.rules.index_range import IndexRange
from numcheck.diagnose.rules.infinities import DifferenceOfInfinities, ZeroTimesInfinity
from numcheck.diagnose.rules.invalid import Invalid
from numcheck.diagnose.rules.logarithm import Logarithm
from numcheck.diagnose.rules.loss_overflow import LossOverflow
from numcheck.diagnose.rules.masked_softmax import MaskedSoftmax
from numcheck.diagnose.rules.matmul_overflow import MatmulOverflow
from numcheck.diagnose.rules.overflow import Overflow
from numcheck.diagnose.rules.power import Power
from numcheck.diagnose.rules.power_overflow import PowerOverflow
from numcheck.diagnose.rules.reduction_overflow import ReductionOverflow
from numcheck.diagnose.rules.square_root import SquareRoot
from numcheck.diagnose.rules.unknown_operator import UnknownOperator
from numcheck.diagnose.rules.unrecorded import Unrecorded
from numcheck.diagnose.rules.written import Uninitialised, Written

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["RULES", "Match", "Rule", "what_broke"]

RULES: tuple[Rule, ...] = (
    BadSource(),
    UnknownOperator(),
    Unrecorded(),
    Uninitialised(),
    Written(),
    CastOverflow(),
    IndexRange(),
    EmptyReduction(),
    FusedMask(),
    MaskedSoftmax(),
    Decomposition(),
    Derivative(),
    Logarithm(),
    SquareRoot(),
    Division(),
    Power(),
    Domain(),
    ZeroTimesInfinity(),
    DifferenceOfInfinities(),
    Exponential(),
    MatmulOverflow(),
    ReductionOverflow(),
    LossOverflow(),
    PowerOverflow(),
    Overflow(),
    Invalid(),
)
"""Asked from first to last; the first that answers names the fault. The last always
answers."""


def what_broke(scene: Scene) -> Match:
    """Return the answer of the first rule that has one."""
    for rule in RULES:
        found = rule.match(scene)
        if found is not None:
            return found
    msg = "the last rule answers always"
    raise AssertionError(msg)
