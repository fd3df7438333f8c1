# SPDX-License-Identifier: Apache-2.0
"""JAX programs with the arithmetic of another device."""

from __future__ import annotations

from numcheck_jax.simulation.attach import simulate

__all__ = ["simulate"]
