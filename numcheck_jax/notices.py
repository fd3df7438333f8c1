# SPDX-License-Identifier: Apache-2.0
"""What a monitor says once of what it does not, or cannot, watch: keys of texts."""

from __future__ import annotations

from typing import Final

__all__ = ["CHANGING", "LET_GO", "NOTHING_SAVED", "ROUNDED", "TRACED"]

TRACED: Final = "notice.traced"
"""The function ran inside another transformation, where less is seen."""

LET_GO: Final = "notice.let_go"
"""A step's flag is read early, since its arguments would take much memory."""

NOTHING_SAVED: Final = "notice.nothing_saved"
"""The pattern of ``save=`` names none of the step's tensors."""

ROUNDED: Final = "notice.rounded"
"""Compiled with its measurements a step can differ by a rounding."""

CHANGING: Final = "notice.changing"
"""A constant changes at each step, so that programs are made again and again."""
