# SPDX-License-Identifier: Apache-2.0
"""A callback for Lightning's Trainer, of `lightning` and of `pytorch_lightning`.

A ``LightningModule`` is seldom called itself: its training step calls parts of it. So
they are found by its optimizers, as in an unmodified script.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from numcheck.options import options_from
from numcheck_torch.running import watching

try:
    from lightning.pytorch.callbacks import Callback
except ModuleNotFoundError:  # the same framework under its older name
    from pytorch_lightning.callbacks import Callback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck_torch.monitor import TorchMonitor

__all__ = ["NumcheckCallback"]


class NumcheckCallback(Callback):  # type: ignore[misc]
    """Watches the training steps of a ``LightningModule``.

    Use it as ``Trainer(..., callbacks=[NumcheckCallback(run="folder")])``.

    Args:
        **options: see `numcheck.options.Options`.

    Attributes:
        monitors: what was found, one for each group of modules trained together.
    """

    def __init__(self, **options: Any) -> None:
        self.monitors: Sequence[TorchMonitor] = ()
        self._options = options_from(options)
        self._open = contextlib.ExitStack()

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Listen for optimizers, which are made after this."""
        if stage == "fit":
            self._open.close()
            self.monitors = self._open.enter_context(watching(self._options))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Look at the last step.

        Raises:
            NonFiniteError: it failed, and the user's policy is to raise.
        """
        for monitor in self.monitors:
            monitor.close()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Stop watching."""
        self._open.close()

    def on_exception(
        self, trainer: Any, pl_module: Any, exception: BaseException
    ) -> None:
        """Stop watching a training that broke off."""
        self._open.close()
