# SPDX-License-Identifier: Apache-2.0
"""Watching a compiled program while it stays compiled.

Whatever backend the user chose is wrapped where it hands its graphs to a compiler: the
forward and the backward graph return the extremes of their values as one more output.
"""

from __future__ import annotations

from numcheck_torch.compile.attach import observed
from numcheck_torch.compile.observer import Observer

__all__ = ["Observer", "observed"]
