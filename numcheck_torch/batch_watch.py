# SPDX-License-Identifier: Apache-2.0
"""The checks of data on the batch of every step, where the user asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck_torch.batch import Batch

if TYPE_CHECKING:
    from numcheck.datacheck.watching import BatchWatch
    from numcheck_torch.bench import Bench

__all__ = ["look_at_batch"]


def look_at_batch(monitor: Bench, watch: BatchWatch) -> None:
    """Check the batch of the present step, and deliver what is new about it."""
    known = [i.settings.get("classes") for i in monitor.incidents]
    classes = next((c for c in reversed(known) if isinstance(c, int)), None)
    arrays = Batch(monitor.model, monitor.program).arrays()
    monitor.deliver(watch.look(monitor.step, arrays, classes))
