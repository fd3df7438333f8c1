# SPDX-License-Identifier: Apache-2.0
"""JAX tests run on the CPU, which poses as four devices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

os.environ.setdefault("JAX_PLATFORMS", "cpu")
_DEVICES = "--xla_force_host_platform_device_count=4"
if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}".strip()


@pytest.fixture(autouse=True)
def _no_failed_effect_is_left() -> Iterator[None]:
    """JAX raises a failed callback again wherever effects are awaited next."""
    yield
    import jax
    from jax._src.dispatch import runtime_tokens

    try:
        jax.effects_barrier()
    except jax.errors.JaxRuntimeError:
        runtime_tokens.clear()
