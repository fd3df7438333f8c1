# SPDX-License-Identifier: Apache-2.0
"""Watching a model that Accelerate prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch

from numcheck_torch.instrumentation import instrument

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["prepare"]

M = TypeVar("M", bound=torch.nn.Module)


def prepare(accelerator: Accelerator, model: M, *others: Any, **options: Any) -> Any:
    """Return what ``accelerator.prepare(model, *others)`` returns, the model watched.

    Args:
        accelerator: prepares the objects.
        model: to be trained.
        *others: optimizers, data loaders, schedulers.
        **options: of `numcheck_torch.instrument`.
    """
    prepared = accelerator.prepare(model, *others)
    optimizers = [o for o in others if isinstance(o, torch.optim.Optimizer)]
    watched = prepared[0] if isinstance(prepared, tuple) else prepared
    instrument(watched, optimizers or None, accelerator.scaler, **options)
    return prepared
