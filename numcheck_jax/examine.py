# SPDX-License-Identifier: Apache-2.0
"""What JAX can do on this machine, for ``numcheck doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax

from numcheck.doctor import Check, installed

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["examine"]


def examine() -> Iterator[Check]:
    """Yield JAX's version, its devices, and the settings that change arithmetic."""
    beside = [f"{n} {v}" for n in ("jaxlib", "flax", "optax") if (v := installed(n))]
    text = ", ".join([jax.__version__, *beside])
    yield Check("jax", "ok", f"{text}, watches jitted and plain functions")
    for device in jax.local_devices():
        yield Check(
            "jax", "ok", f"{device.platform}:{device.id} is {device.device_kind}"
        )
    settings = jax.config.values
    if settings.get("jax_enable_x64"):
        yield Check("jax", "ok", "float64 is on")
    precision = settings.get("jax_default_matmul_precision")
    if precision is not None:
        text = f"jax_default_matmul_precision is {precision!r}"
        yield Check("jax", "note", text)
