# SPDX-License-Identifier: Apache-2.0
"""What a trainer's callback has in common with every other one: watch, then close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numcheck_torch.instrumentation import instrument

if TYPE_CHECKING:
    import torch

    from numcheck_torch.monitor import TorchMonitor

__all__ = ["Watch"]


class Watch:
    """A monitor that begins and ends with a trainer's loop.

    Args:
        **options: of `numcheck_torch.instrument`.

    Example:
        >>> import torch
        >>> watch = Watch(on_error="record")
        >>> watch.begin(torch.nn.Linear(2, 1))
        >>> watch.end()
        >>> watch.monitor.findings
        ()
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.monitor: TorchMonitor | None = None

    def begin(self, model: torch.nn.Module, step: int = 0) -> None:
        """Watch the model the trainer is about to train.

        Args:
            model: as the trainer calls it.
            step: steps made before, by a run that is resumed.
        """
        watched: Any = instrument(model, **self._options)
        self.monitor = watched.numcheck
        watched.numcheck.step = step

    def end(self) -> None:
        """Stop watching; the findings stay with the monitor.

        Raises:
            NonFiniteError: a failure of the last step was pending, and the user's
                policy is to raise.
        """
        if self.monitor is not None:
            self.monitor.close()
