# SPDX-License-Identifier: Apache-2.0
"""Where a training is heading: rules over the scalars of its steps."""

from __future__ import annotations

from numcheck.diagnose.dynamics.headroom import tightest
from numcheck.diagnose.dynamics.samples import sampled
from numcheck.diagnose.dynamics.trends import trends

__all__ = ["sampled", "tightest", "trends"]
