# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs with the arithmetic of another device."""

from __future__ import annotations

from numcheck_torch.simulation.attach import Simulation, simulate

__all__ = ["Simulation", "simulate"]
