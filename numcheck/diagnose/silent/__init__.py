# SPDX-License-Identifier: Apache-2.0
"""Harm without NaN or Inf: kept values that depart from their float32 shadow.

A departure alone proves nothing, since the difference of nearly equal numbers is noise
in any format. A fault is reported where the first departing operator shows how the
value was lost: it overflowed, was flushed to zero, no longer moved a sum, or was an
angle too coarse to tell turns apart.
"""

from __future__ import annotations

from numcheck.diagnose.silent.departed import Departed
from numcheck.diagnose.silent.departing import departed

__all__ = ["Departed", "departed"]
