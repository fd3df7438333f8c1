# SPDX-License-Identifier: Apache-2.0
"""The public call: a module, watched."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Never, TypeVar, cast

import torch

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.options import Options, refuse_unknown
from numcheck_torch import plain
from numcheck_torch.monitor import TorchMonitor
from numcheck_torch.step import WatchedStep

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numcheck.options import Level, OnError

__all__ = ["instrument"]

M = TypeVar("M")
_OTHERS = {"model", "unknown"}


def instrument(  # noqa: PLR0913 - the settings are keywords
    model: M,
    optimizer: torch.optim.Optimizer | list[torch.optim.Optimizer] | None = None,
    scaler: torch.amp.GradScaler | None = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    level: Level = "watch",
    every: int | None = None,
    audit_first: bool = True,
    on_error: OnError = "raise",
    run: str | os.PathLike[str] | None = None,
    experiments: bool = True,
    check_data: bool = False,
    save: str | None = None,
    sync: bool = True,
    **unknown: Never,
) -> M:
    """Return the same module, watched; its monitor is ``model.numcheck``.

    Args:
        model: any module, also a compiled or a distributed one; or a plain function
            that makes a whole training step. Then a function like it is returned, and
            what it trains is found in its closure, globals and arguments.
        optimizer: what trains it, one or several; found by itself when None.
        scaler: the gradient scaler; found by itself when None.
        loss_fn: a loss module to watch as a whole. A loss *function* that hides its
            operators is watched by calling ``model.numcheck.watch(loss_fn)`` instead.
        level: ``watch``, ``anchors`` or ``trace``; see `numcheck.options.Options`.
        every: audit a step beside float32 every so many steps.
        audit_first: audit the first step.
        on_error: ``raise``, ``warn``, ``record`` or ``skip``.
        run: folder that keeps the trace.
        experiments: run the experiments that tell the cause of a failure.
        check_data: check the batch of every healthy step, too.
        save: which tensors to keep in the run folder, as a pattern over ``loss``,
            ``output``, ``output:PATH`` of a module, ``gradient:NAME`` and
            ``parameter:NAME``; at every step, or at every `every`-th.
        sync: read each step before its update, which waits for the device once; False
            leaves the answer to the next step, when the update with it was made. The
            failing step is then run again on repaired parameters, its batch is held
            for one step more, and ``skip`` is not possible.
        **unknown: refused.

    Raises:
        ArgumentTypeError: an argument is not what it should be.
        ArgumentError: an option is not known, or has a value that cannot be used.
        NonFiniteError: later, from the step that broke, under ``on_error="raise"``.

    Example:
        >>> model = instrument(torch.nn.Linear(2, 1))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> model(torch.ones(3, 2)).sum().backward()
        >>> optimizer.step()
        >>> model.numcheck.findings
        ()
    """
    refuse_unknown(unknown, inspect.signature(instrument).parameters.keys() - _OTHERS)
    options = Options(level, every, audit_first, on_error, run, experiments, check_data)
    if on_error == "skip" and not sync:
        raise ArgumentError(
            "on_error='skip' has to know before the update, sync=False tells after it"
        )
    _check_loss(loss_fn)
    optimizers = _optimizers(optimizer)
    if not isinstance(model, torch.nn.Module):
        function = _checked_step(model)
        return cast("M", WatchedStep(function, options, optimizers, scaler, sync=sync))
    _check_that_they_train(model, optimizers)
    earlier = getattr(model, "numcheck", None)
    if isinstance(earlier, TorchMonitor):
        earlier.close()
    monitor = TorchMonitor(model, options, optimizers, scaler, sync=sync)
    if save is not None:
        try:
            monitor.save(save)
        except ArgumentError:
            monitor.close()
            raise
    plain.attach(model, monitor)
    if isinstance(loss_fn, torch.nn.Module):
        monitor.watch(loss_fn)
    return model


def _check_loss(given: object) -> None:
    if given is not None and not callable(given):
        kind = type(given).__name__
        raise ArgumentTypeError(f"loss_fn must be a loss module, got {kind}")


def _checked_step(step: object) -> Callable[..., Any]:
    if isinstance(step, type):
        raise ArgumentTypeError(
            f"model must be an object, got the class {step.__name__}; make an object "
            "of it first"
        )
    if not callable(step):
        raise ArgumentTypeError(
            "model must be a torch.nn.Module or a function that makes a training "
            f"step, got {type(step).__name__}"
        )
    return step


def _check_that_they_train(
    model: torch.nn.Module, optimizers: tuple[torch.optim.Optimizer, ...]
) -> None:
    own = {id(p) for p in model.parameters()}
    for optimizer in optimizers:
        groups = optimizer.param_groups
        if own and not any(id(p) in own for g in groups for p in g["params"]):
            raise ArgumentError(
                f"{type(optimizer).__name__} holds no parameter of the model; pass the "
                "optimizer that trains it, or none: it is found by itself"
            )


def _optimizers(given: Any) -> tuple[torch.optim.Optimizer, ...]:
    if given is None:
        return ()
    found = tuple(given) if isinstance(given, list | tuple) else (given,)
    for one in found:
        if not isinstance(one, torch.optim.Optimizer):
            raise ArgumentTypeError(
                "optimizer must be a torch.optim.Optimizer or a list of them, "
                f"got {type(one).__name__}"
            )
    return found
