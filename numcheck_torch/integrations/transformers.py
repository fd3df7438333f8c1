# SPDX-License-Identifier: Apache-2.0
"""A callback for the Trainer of Hugging Face's transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from numcheck_torch.integrations.watching import Watch

if TYPE_CHECKING:
    import torch
    from transformers import TrainerControl, TrainerState, TrainingArguments

    from numcheck_torch.monitor import TorchMonitor

__all__ = ["NumcheckCallback"]


class NumcheckCallback(TrainerCallback):  # type: ignore[misc]
    """Watches what a ``Trainer`` trains.

    Use it as ``Trainer(..., callbacks=[NumcheckCallback(run="folder")])``; what was
    found is in its ``monitor``.

    Args:
        **options: of `numcheck_torch.instrument`.
    """

    def __init__(self, **options: Any) -> None:
        self._watch = Watch(**options)

    @property
    def monitor(self) -> TorchMonitor | None:
        """The monitor; None before training begins."""
        return self._watch.monitor

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: torch.nn.Module | None = None,
        **others: Any,
    ) -> None:
        """Watch the model."""
        if model is not None:
            self._watch.begin(model, state.global_step)

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> None:
        """Look at the last step, and stop."""
        self._watch.end()
