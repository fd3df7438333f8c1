# SPDX-License-Identifier: Apache-2.0
"""What is known of how a model is trained, for the rules that ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.classes import classes_of
from numcheck_torch.capture import Forward
from numcheck_torch.dtypes import format_name
from numcheck_torch.npu import device_facts, simulated
from numcheck_torch.optimizers import settings_of

if TYPE_CHECKING:
    from numcheck.diagnose.incident import Setting
    from numcheck.record.trace import Trace
    from numcheck_torch.monitor import TorchMonitor

__all__ = ["settings_of_run"]

_CLASSIFIERS = ("aten.nll_loss_forward.", "aten.nll_loss2d_forward.")


def settings_of_run(monitor: TorchMonitor, trace: Trace) -> dict[str, Setting]:
    """Return optimizer, precision, scaling, clipping and device of a watched run.

    Args:
        monitor: of the run.
        trace: of the step in question.
    """
    settings: dict[str, Setting] = {"framework": "torch"}
    parameter = next(iter(monitor.model.parameters()), None)
    if parameter is not None:
        settings["device"] = parameter.device.type
        settings.update(device_facts(parameter.device))
        machine = simulated(monitor.model)
        if machine is not None:
            # The arithmetic is another device's, so its overflows are too.
            settings.pop("overflow_mode", None)
            if machine.flag is not None:
                settings["overflow_mode"] = "saturation"
    for optimizer in monitor.optimizers[:1]:
        settings.update(settings_of(optimizer))
    for event in monitor.program.events:
        if isinstance(event, Forward) and event.autocast.dtype is not None:
            settings["autocast"] = format_name(event.autocast.dtype)
    classes = _classes(trace)
    if classes is not None:
        settings["classes"] = classes
    settings.update(_of_loop(monitor))
    return settings


def _of_loop(monitor: TorchMonitor) -> dict[str, Setting]:
    """Return what the training loop does around the model: flag, clipping, scaling."""
    found: dict[str, Setting] = {}
    if monitor.reads_overflow_flag:
        # An inquiry knows better.
        found["overflow_flag_readable"] = True
        if monitor.flag_stayed_clear:
            found["overflow_flag"] = False
    if monitor.clip_limit is not None:
        found["clip_norm"] = monitor.clip_limit
    if monitor.scale.is_dynamic:
        found["dynamic_loss_scale"] = True
        if monitor.scale.value is not None:
            found["loss_scale"] = monitor.scale.value
    return found


def _classes(trace: Trace) -> int | None:
    """Return the number of classes where the loss is a classification."""
    for site in trace.sites:
        if site.op.startswith(_CLASSIFIERS) and site.parents:
            shape = trace.sites[site.parents[0]].shape
            return shape[1] if len(shape) > 1 else None
    return next((classes_of(trace.at(*key)) for key in trace.summaries), None)
