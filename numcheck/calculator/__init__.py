# SPDX-License-Identifier: Apache-2.0
"""The standalone calculator: formats, single values and files of arrays."""

from __future__ import annotations

__all__: list[str] = []
