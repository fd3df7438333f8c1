# SPDX-License-Identifier: Apache-2.0
"""The checks, one a file. Each takes an array that was examined, and the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck.datacheck.checks.beyond_range import beyond_range
from numcheck.datacheck.checks.constant import constant
from numcheck.datacheck.checks.dtype_mismatch import dtype_mismatch
from numcheck.datacheck.checks.empty_group import empty_group
from numcheck.datacheck.checks.ignored_labels import ignored_labels
from numcheck.datacheck.checks.integer_range import integer_range
from numcheck.datacheck.checks.label_range import label_range
from numcheck.datacheck.checks.lost_digits import lost_digits
from numcheck.datacheck.checks.mask_rows import mask_rows
from numcheck.datacheck.checks.no_number import no_number
from numcheck.datacheck.checks.nonfinite import nonfinite
from numcheck.datacheck.checks.outlier import outlier
from numcheck.datacheck.checks.pixels import pixels
from numcheck.datacheck.checks.sentinel import sentinel
from numcheck.datacheck.checks.unnormalised import unnormalised
from numcheck.datacheck.checks.vanishing import vanishing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["CHECKS"]

CHECKS: Final[tuple[Callable[[Subject, Settings], Iterator[Problem]], ...]] = (
    nonfinite,
    no_number,
    label_range,
    ignored_labels,
    mask_rows,
    empty_group,
    beyond_range,
    sentinel,
    outlier,
    pixels,
    unnormalised,
    constant,
    vanishing,
    lost_digits,
    integer_range,
    dtype_mismatch,
)
