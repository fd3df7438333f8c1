# SPDX-License-Identifier: Apache-2.0
"""What a monitor says once of what it does not, or cannot, watch."""

from __future__ import annotations

from typing import Final

__all__ = ["CHANGING", "LET_GO", "NOTHING_SAVED", "ROUNDED", "TRACED"]

TRACED: Final = (
    "the function ran inside another transformation (jit, grad, vmap, scan): there "
    "NaN and Inf that leave it are seen, but no step is audited beside float32, "
    "overflows that leave nothing but wrong numbers are missed, and steps are not "
    "counted; instrument the outermost function to have all of it"
)

LET_GO: Final = (
    "a step's flag is read before the next step runs, so that its arguments can be let "
    "go: with lag=1 they would take more than 2 % of the peak memory; donating them, "
    "with rollback=True, takes none"
)
NOTHING_SAVED: Final = (
    "save= names none of the step's tensors: it knows the loss, outputs, parameters, "
    "state, and gradients that the step returns"
)

ROUNDED: Final = (
    "here the step is compiled with its measurements: what it gives can differ by a "
    "rounding from the plain step; under xla_allow_excess_precision=False, given to "
    "jax.jit as a compiler option or in XLA_FLAGS, it is the same bit for bit"
)

CHANGING: Final = (
    "a Python number, or another argument that is no JAX array, changes from step to "
    "step and is a constant of the measured program, which is compiled again for each "
    "value, as for a static argument of jax.jit: give it as an array, or jit the "
    "function without making it static"
)
