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
    versions = ", ".join([jax.__version__, *beside])
    yield Check("jax", "ok", "jax", {"versions": versions})
    for device in jax.local_devices():
        place = f"{device.platform}:{device.id}"
        known = {"place": place, "name": device.device_kind}
        yield Check("jax", "ok", "device", known)
    settings = jax.config.values
    if settings.get("jax_enable_x64"):
        yield Check("jax", "ok", "float64_on")
    precision = settings.get("jax_default_matmul_precision")
    if precision is not None:
        yield Check("jax", "note", "matmul_precision", {"precision": str(precision)})
