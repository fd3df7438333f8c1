# SPDX-License-Identifier: Apache-2.0
"""Checks of data before it is trained on: scale, missing values, labels, masks."""

from __future__ import annotations

from numcheck.datacheck.problem import Problem
from numcheck.datacheck.settings import Settings
from numcheck.datacheck.stream import Stream, check_arrays

__all__ = ["Problem", "Settings", "Stream", "check_arrays"]
