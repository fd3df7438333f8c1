# SPDX-License-Identifier: Apache-2.0
"""Faults of the device rather than of the values: saturation, flags, settings."""

from __future__ import annotations

from numcheck.diagnose.device.hidden import HiddenScene, hidden_faults, is_flagged
from numcheck.diagnose.device.notes import device_notes

__all__ = ["HiddenScene", "device_notes", "hidden_faults", "is_flagged"]
