# SPDX-License-Identifier: Apache-2.0
"""What is known of how a model is trained, for the rules that ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck_torch.capture import Forward
from numcheck_torch.dtypes import format_name
from numcheck_torch.optimizers import settings_of
from numcheck_torch.program import Operation

if TYPE_CHECKING:
    from numcheck.diagnose.incident import Setting
    from numcheck_torch.monitor import TorchMonitor

__all__ = ["settings_of_run"]

_CLASSIFIERS = ("nll_loss_forward", "nll_loss2d_forward")


def settings_of_run(monitor: TorchMonitor) -> dict[str, Setting]:
    """Return optimizer, precision, scaling, clipping and device of a watched run."""
    settings: dict[str, Setting] = {"framework": "torch"}
    parameter = next(iter(monitor.model.parameters()), None)
    if parameter is not None:
        settings["device"] = parameter.device.type
    for optimizer in monitor.optimizers[:1]:
        settings.update(settings_of(optimizer))
    for event in monitor.program.events:
        if isinstance(event, Forward) and event.autocast.dtype is not None:
            settings["autocast"] = format_name(event.autocast.dtype)
        if isinstance(event, Operation):
            settings.update(_classes(monitor, event))
    if monitor.clip is not None:
        settings["clip_norm"] = monitor.clip[0]
    if monitor.scale.is_dynamic:
        settings["dynamic_loss_scale"] = True
        if monitor.scale.value is not None:
            settings["loss_scale"] = monitor.scale.value
    return settings


def _classes(monitor: TorchMonitor, event: Operation) -> dict[str, Setting]:
    """Return the number of classes where the operator is a classification loss."""
    name = getattr(event.function, "__name__", "").partition(".")[0]
    if name not in _CLASSIFIERS:
        return {}
    slot = getattr(event.args[0], "index", -1)
    shape = monitor.program.shapes.get(slot)
    return {} if not shape or len(shape) < 2 else {"classes": shape[1]}
