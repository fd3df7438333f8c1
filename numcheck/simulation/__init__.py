# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of devices as data: which numbers each operator rounds to what."""

from __future__ import annotations

from numcheck.simulation.loading import load, profile_names
from numcheck.simulation.profile import Arithmetic, Profile, Rule
from numcheck.simulation.rounding import Rounding

__all__ = ["Arithmetic", "Profile", "Rounding", "Rule", "load", "profile_names"]
