# SPDX-License-Identifier: Apache-2.0
"""Why it broke: rules over an origin and the experiments, asked in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import CauseRule, Explanation
from numcheck.diagnose.causes.cancellation import Cancellation
from numcheck.diagnose.causes.damaged_batch import DamagedBatch
from numcheck.diagnose.causes.damaged_state import DamagedState
from numcheck.diagnose.causes.decay import DecayTooStrong
from numcheck.diagnose.causes.drift import Drift, MomentumTooLarge
from numcheck.diagnose.causes.empty_group import EmptyGroup
from numcheck.diagnose.causes.format_range import FormatRange, RoundedToEdge
from numcheck.diagnose.causes.fused_mask import MaskMisused
from numcheck.diagnose.causes.hardware import (
    KernelDiffers,
    MemoryOverwritten,
    StreamRace,
)
from numcheck.diagnose.causes.initial_scale import InitialScale
from numcheck.diagnose.causes.integer_wrap import IntegerWrap
from numcheck.diagnose.causes.label_range import LabelRange
from numcheck.diagnose.causes.loss_scale import LossScale
from numcheck.diagnose.causes.outlier_rows import OutlierRows
from numcheck.diagnose.causes.rate import NoWarmUp, RateTooHigh
from numcheck.diagnose.causes.recurrence import CarriedState, Recurrence
from numcheck.diagnose.causes.unclipped import Unclipped
from numcheck.diagnose.causes.unguarded import Unguarded
from numcheck.diagnose.causes.unnormalised import Unnormalised, UnnormalisedTraining
from numcheck.diagnose.causes.unnormalised_stack import UnnormalisedStack
from numcheck.diagnose.causes.vanished_epsilon import VanishedEpsilon
from numcheck.diagnose.causes.written_too_large import WrittenTooLarge
from numcheck.diagnose.causes.zero_initialised import ZeroInitialised

if TYPE_CHECKING:
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["CAUSES", "CauseRule", "Explanation", "why"]

CAUSES: tuple[CauseRule, ...] = (
    DamagedBatch(),
    DamagedState(),
    StreamRace(),
    KernelDiffers(),
    MemoryOverwritten(),
    MaskMisused(),
    LabelRange(),
    IntegerWrap(),
    VanishedEpsilon(),
    LossScale(),
    WrittenTooLarge(),
    RoundedToEdge(),
    FormatRange(),
    Cancellation(),
    EmptyGroup(),
    ZeroInitialised(),
    MomentumTooLarge(),
    DecayTooStrong(),
    UnnormalisedTraining(),
    Unclipped(),
    NoWarmUp(),
    RateTooHigh(),
    Drift(),
    Recurrence(),
    CarriedState(),
    OutlierRows(),
    InitialScale(),
    Unnormalised(),
    UnnormalisedStack(),
    Unguarded(),
)
"""Asked from first to last: what was measured before what is inferred. The last always
answers."""


def why(scene: Scene, broke: Match) -> Explanation | None:
    """Return the answer of the first rule that has one; None where none has."""
    for rule in CAUSES:
        found = rule.explain(scene, broke)
        if found is not None:
            return found
    return None
