# SPDX-License-Identifier: Apache-2.0
"""A call of the module that ends in an error: perhaps because of a NaN in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from numcheck.diagnose import diagnose
from numcheck.diagnose.incident import Incident
from numcheck.diagnose.laboratory import CannotRunError
from numcheck.errors import NonFiniteError
from numcheck.monitor import NumcheckWarning
from numcheck.record.notice import notice
from numcheck_torch.distributed import of_rank
from numcheck_torch.engine import is_inside
from numcheck_torch.settings import settings_of_run

if TYPE_CHECKING:
    from numcheck.record.trace import Trace
    from numcheck_torch.capture import Forward
    from numcheck_torch.monitor import TorchMonitor

__all__ = ["MOST_IN_VAIN", "explain"]

MOST_IN_VAIN = 3
"""Errors without a NaN after which no more are looked into: a program may use errors
to go another way, and running each call again would cost it half its speed."""


def explain(monitor: TorchMonitor, call: Forward, error: BaseException) -> bool:
    """Tell of a NaN or Inf that a call failed over; False where there is none.

    The error itself goes on as it is; what stops the program is added to it as a note.

    Args:
        monitor: whose module was called.
        call: what it was called with.
        error: what the call ended in.
    """
    trace = _traced(monitor, call, error)
    if trace is None:
        return False
    monitor.observe(note=notice("notice.call_failed", error=type(error).__name__))
    incident = Incident(
        of_rank(trace, monitor.rank),
        monitor.step,
        monitor.rank,
        reproduced=True,
        history=tuple(monitor.events),
        settings=settings_of_run(monitor, trace),
    )
    monitor.keep(incident)
    try:
        monitor.deliver(diagnose(incident))
    except (NonFiniteError, NumcheckWarning) as found:
        error.add_note(str(found))
    return True


def _traced(monitor: TorchMonitor, call: Forward, error: BaseException) -> Trace | None:
    """Run the step again up to the error; None where that shows nothing."""
    is_ours = isinstance(error, NonFiniteError | MemoryError | torch.OutOfMemoryError)
    if is_ours or not isinstance(error, Exception) or is_inside():
        return None
    events = monitor.program.events
    events.append(call)
    try:
        laboratory = monitor.laboratory(with_update=False)
        return laboratory.until_error(type(error))
    except CannotRunError:
        return None
    except Exception:  # noqa: BLE001 - an attempt; the error itself is raised as it is
        return None
    finally:
        events.pop()
