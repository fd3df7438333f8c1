# SPDX-License-Identifier: Apache-2.0
"""The public call: a module or a function that computes as a device does."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import optimizer as optimizers

from numcheck.errors import ArgumentTypeError
from numcheck.simulation import load
from numcheck_torch import doors, modes
from numcheck_torch.engine import DOOR, EngineRun
from numcheck_torch.reach import modules_of
from numcheck_torch.simulation.machine import Machine
from numcheck_torch.trees import tensors

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numcheck.simulation import Profile

__all__ = ["Simulation", "simulate"]

M = TypeVar("M")

_UNSCALING: Final = (torch.amp.GradScaler, "_unscale_grads_")
"""Where a scaler divides gradients by its scale, and looks whether they are finite."""


def simulate(model: M, profile: str | os.PathLike[str] | Profile) -> M:
    """Return the same module, computing from now on with a device's arithmetic.

    The forward pass, the loss, the backward pass and the update of the module's
    parameters are simulated: everything this thread does from a call of the module to
    the end of the backward pass (or until the graph is dropped), and every step of an
    optimizer that holds its parameters. Watching it with
    `numcheck_torch.instrument` explains what the device would have done.

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
        _attach(model, machine)
        return model
    if not callable(model):
        raise ArgumentTypeError(
            "simulate expects a torch.nn.Module or a function, got "
            f"{type(model).__name__}"
        )
    return cast("M", _SimulatedFunction(model, machine))


def _attach(model: torch.nn.Module, machine: Machine) -> None:
    earlier = getattr(model, "simulation", None)
    if isinstance(earlier, Simulation):
        if earlier.machine is machine:
            return
        earlier.close()
    object.__setattr__(model, "simulation", Simulation(model, machine))


class _SimulatedFunction:
    """A function inside of which everything is simulated.

    The modules it uses are simulated of themselves too, so that whoever watches them
    and runs a part of the step again runs it on the same device.
    """

    def __init__(self, function: Callable[..., Any], machine: Machine) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._machine = machine

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; see it for arguments and results."""
        machine = self._machine
        for module in modules_of(self._function, args, kwargs).values():
            _attach(module, machine)
        was_active = modes.is_active(machine)
        machine.holders += 1
        modes.insert(machine)
        doors.listen(*DOOR, before=self._enter_engine)
        try:
            with _attention(machine):
                return self._function(*args, **kwargs)
        finally:
            doors.unlisten(*DOOR, self)
            machine.holders -= 1
            if not was_active:
                modes.remove(machine)

    def _enter_engine(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._machine.roles.seed(EngineRun.of(args, kwargs).seeds)


def _attention(machine: Machine) -> contextlib.AbstractContextManager[Any]:
    if machine.takes_attention_apart:
        block: contextlib.AbstractContextManager[Any] = sdpa_kernel(SDPBackend.MATH)
        return block
    return contextlib.nullcontext()


class _Token:
    """Lives as long as the graph that it is tied to."""


class Simulation:
    """A module that computes with a device's arithmetic.

    Args:
        model: the module.
        machine: the device.
    """

    def __init__(self, model: torch.nn.Module, machine: Machine) -> None:
        self.machine = machine
        self._model = weakref.ref(model)
        self._depth = 0
        self._block = contextlib.ExitStack()
        self._handles = [
            model.register_forward_pre_hook(self._before, prepend=True),
            model.register_forward_hook(self._after, always_call=True),
        ]
        _updating().add(self)
        doors.listen(*DOOR, before=self._enter_engine, after=self._leave_engine)
        doors.listen(*_UNSCALING, before=self._enter_update, after=self._leave_update)

    def __deepcopy__(self, memo: dict[int, Any]) -> Simulation:
        """A copy of the module runs on the same device."""
        return self

    @property
    def profile(self) -> Profile:
        """The device's arithmetic."""
        return self.machine.profile

    def close(self) -> None:
        """End the simulation; the module computes as the framework does again."""
        self._stop()
        doors.unlisten(*DOOR, self)
        doors.unlisten(*_UNSCALING, self)
        _updating().discard(self)
        for handle in self._handles:
            handle.remove()

    def _before(self, module: torch.nn.Module, args: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self.machine.lease = None
            self.machine.roles.restart()
            modes.insert(self.machine)
            self._block.enter_context(_attention(self.machine))

    def _after(self, module: torch.nn.Module, args: Any, out: Any) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth > 0:
            return
        self._block.close()
        nodes = [t.grad_fn for t in tensors(out) if t.grad_fn is not None]
        if not nodes:
            self._stop()
            return
        # What follows is the loss, for as long as the graph is there to go back on.
        token = _Token()
        for node in nodes:
            kept: Any = node.metadata
            kept["numcheck_simulation"] = token
        machine = self.machine
        machine.lease = weakref.ref(token, lambda _: modes.remove(machine))

    def _enter_engine(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if modes.is_active(self.machine):
            self.machine.roles.seed(EngineRun.of(args, kwargs).seeds)

    def _leave_engine(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        run = EngineRun.of(args, kwargs)
        if self._depth == 0 and not (run.retains or run.creates):
            self._stop()

    def _enter_update(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.before_update(args[1])

    def _leave_update(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        self.after_update(args[1])

    def before_update(self, opt: torch.optim.Optimizer) -> None:
        """Start when one's own parameters are about to be updated."""
        if self._trains(opt):
            self.machine.lease = None
            modes.insert(self.machine)

    def after_update(self, opt: torch.optim.Optimizer) -> None:
        """Stop when one's own parameters were updated."""
        if self._trains(opt):
            self._stop()

    def _trains(self, opt: torch.optim.Optimizer) -> bool:
        model = self._model()
        own = set() if model is None else {id(p) for p in model.parameters()}
        return any(id(p) in own for group in opt.param_groups for p in group["params"])

    def _stop(self) -> None:
        self._block.close()
        if not self.machine.holders:
            modes.remove(self.machine)


@functools.cache
def _updating() -> weakref.WeakSet[Simulation]:
    """Return the simulations that are told of every update, the same set each time.

    The hooks are set once and stay: hooks that come and go with their simulations
    could be taken away while PyTorch walks through them.
    """
    told: weakref.WeakSet[Simulation] = weakref.WeakSet()

    def before(opt: torch.optim.Optimizer, *_: Any) -> None:
        for simulation in tuple(told):
            simulation.before_update(opt)

    def after(opt: torch.optim.Optimizer, *_: Any) -> None:
        for simulation in tuple(told):
            simulation.after_update(opt)

    optimizers.register_optimizer_step_pre_hook(before)
    optimizers.register_optimizer_step_post_hook(after)
    return told
