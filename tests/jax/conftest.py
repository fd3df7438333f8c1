# SPDX-License-Identifier: Apache-2.0
"""JAX tests run on the CPU, which poses as four devices."""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
_DEVICES = "--xla_force_host_platform_device_count=4"
if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}".strip()
