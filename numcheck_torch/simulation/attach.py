# SPDX-License-Identifier: Apache-2.0
"""The public call: a module or a function that computes as a device does."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import optimizer as optimizers

from numcheck.errors import ArgumentTypeError
from numcheck.simulation import load
from numcheck_torch import doors, modes
from numcheck_torch.engine import DOOR, EngineRun
from numcheck_torch.simulation.machine import Machine

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from numcheck.simulation import Profile

__all__ = ["Simulation", "simulate"]

M = TypeVar("M")


def simulate(model: M, profile: str | os.PathLike[str] | Profile) -> M:
    """Return the same module, computing from now on with a device's arithmetic.

    The forward pass, the loss, the backward pass and the update of the module's
    parameters are simulated: everything this thread does from a call of the module to
    the end of the backward pass, and every step of an optimizer that holds its
    parameters. Watching it with `numcheck_torch.instrument` explains what the device
    would have done.

    Args:
        model: any module; ``model.simulation.close()`` ends the simulation. Or a
            function, such as a whole training step; then a function like it is
            returned, inside of which everything is simulated.
        profile: name of a profile (`numcheck profiles` lists them), a TOML file of
            the same form, or a `numcheck.simulation.Profile`.

    Raises:
        ArgumentTypeError: `model` cannot be called.
        ArgumentError: there is no such profile.

    Example:
        >>> layer = simulate(torch.nn.Linear(2, 1), "mxfp4")
        >>> layer(torch.ones(3, 2)).shape
        torch.Size([3, 1])
        >>> layer.simulation.close()
        >>> simulate(torch.exp, "ascend910a")(torch.tensor([20.0]).half()).item()
        65504.0
    """
    machine = Machine(load(profile))
    if isinstance(model, torch.nn.Module):
        earlier = getattr(model, "simulation", None)
        if isinstance(earlier, Simulation):
            earlier.close()
        object.__setattr__(model, "simulation", Simulation(model, machine))
        return model
    if not callable(model):
        raise ArgumentTypeError(
            "simulate expects a torch.nn.Module or a function, got "
            f"{type(model).__name__}"
        )
    return cast("M", _simulated(model, machine))


def _simulated(function: Callable[..., Any], machine: Machine) -> Callable[..., Any]:
    @functools.wraps(function)
    def simulated(*args: Any, **kwargs: Any) -> Any:
        with _running(machine):
            return function(*args, **kwargs)

    return simulated


@contextlib.contextmanager
def _running(machine: Machine) -> Iterator[None]:
    was_active = modes.is_active(machine)
    modes.insert(machine)
    try:
        with _attention(machine):
            yield
    finally:
        if not was_active:
            modes.remove(machine)


def _attention(machine: Machine) -> contextlib.AbstractContextManager[Any]:
    if machine.takes_attention_apart:
        block: contextlib.AbstractContextManager[Any] = sdpa_kernel(SDPBackend.MATH)
        return block
    return contextlib.nullcontext()


class Simulation:
    """A module that computes with a device's arithmetic.

    Args:
        model: the module.
        machine: the device.
    """

    def __init__(self, model: torch.nn.Module, machine: Machine) -> None:
        self._machine = machine
        self._parameters = weakref.ref(model)
        self._depth = 0
        self._block = contextlib.ExitStack()
        own = weakref.proxy(self)
        self._handles = [
            model.register_forward_pre_hook(self._before, prepend=True),
            model.register_forward_hook(self._after, always_call=True),
            optimizers.register_optimizer_step_pre_hook(
                lambda opt, *_: own._update(opt, starts=True)
            ),
            optimizers.register_optimizer_step_post_hook(
                lambda opt, *_: own._update(opt, starts=False)
            ),
        ]
        doors.listen(*DOOR, before=self._enter_engine, after=self._leave_engine)

    @property
    def profile(self) -> Profile:
        """The device's arithmetic."""
        return self._machine.profile

    def close(self) -> None:
        """End the simulation; the module computes as the framework does again."""
        self._stop()
        doors.unlisten(*DOOR, self)
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _before(self, module: torch.nn.Module, args: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            modes.insert(self._machine)
            self._block.enter_context(_attention(self._machine))

    def _after(self, module: torch.nn.Module, args: Any, out: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth > 0:
            return
        self._block.close()
        if not torch.is_grad_enabled() or out is None:
            self._stop()

    def _enter_engine(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if modes.is_active(self._machine):
            self._machine.seed(EngineRun.of(args, kwargs).seeds)

    def _leave_engine(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        run = EngineRun.of(args, kwargs)
        if self._depth == 0 and not (run.retains or run.creates):
            self._stop()

    def _update(self, opt: torch.optim.Optimizer, *, starts: bool) -> None:
        model = self._parameters()
        if model is None:
            return
        own = {id(p) for p in model.parameters()}
        if not any(id(p) in own for g in opt.param_groups for p in g["params"]):
            return
        if starts:
            modes.insert(self._machine)
        else:
            self._stop()

    def _stop(self) -> None:
        self._block.close()
        modes.remove(self._machine)
