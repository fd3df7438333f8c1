# SPDX-License-Identifier: Apache-2.0
"""What is kept of a forward call so that it can be run again, bit for bit.

Tensors are kept by reference: nothing is copied but random states, a few elements of
each argument as a fingerprint, and the buffers that the call changes.

What is made at every call is neither frozen nor a named tuple: after a step's large
operators the code that makes one of those is out of the caches and costs microseconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.trees import flat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numcheck_torch.buffers import BufferSnapshot
    from numcheck_torch.host_random import HostState
    from numcheck_torch.lasting import Lasting
    from numcheck_torch.places import Place

__all__ = ["Autocast", "Forward", "Kept", "RandomState", "without_autocast"]

_SAMPLES = 64
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_NUMPY = frozenset(
    {
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128,
    }
)  # fmt: skip


@functools.cache
def devices() -> tuple[str, ...]:
    """Return the types of the devices a program can use here, ``cpu`` first."""
    if not torch.accelerator.is_available():
        return ("cpu",)
    accelerator = torch.accelerator.current_accelerator()
    return ("cpu",) if accelerator is None else ("cpu", accelerator.type)


@dataclasses.dataclass(slots=True)
class RandomState:
    """State of the random generators of every device, and of the program's own."""

    cpu: torch.Tensor
    others: tuple[tuple[str, torch.Tensor], ...] = ()
    own: tuple[tuple[torch.Generator, torch.Tensor], ...] = ()

    @classmethod
    def now(cls, generators: Sequence[torch.Generator] = ()) -> RandomState:
        """Return the present state.

        Args:
            generators: those of the program's own.
        """
        if len(devices()) == 1 and not generators:
            return cls(torch.default_generator.get_state())
        others = tuple(
            [
                (name, torch.get_device_module(name).get_rng_state())
                for name in devices()[1:]
            ]
        )
        own = tuple([(g, g.get_state()) for g in generators])
        return cls(torch.default_generator.get_state(), others, own)

    def restore(self) -> None:
        """Put the generators back into this state."""
        torch.set_rng_state(self.cpu)
        for name, state in self.others:
            torch.get_device_module(name).set_rng_state(state)
        for generator, state in self.own:
            generator.set_state(state)


@dataclasses.dataclass(frozen=True, slots=True)
class Autocast:
    """Mixed precision as it was set.

    Attributes:
        states: (device, lower precision) for each device; None where it is off.
        caches: whether casts of parameters are cached.
    """

    states: tuple[tuple[str, torch.dtype | None], ...]
    caches: bool = True

    @classmethod
    def now(cls) -> Autocast:
        """Return what is set now."""
        if not any(map(torch.is_autocast_enabled, devices())):
            return _no_autocast()
        states = [
            (d, torch.get_autocast_dtype(d) if torch.is_autocast_enabled(d) else None)
            for d in devices()
        ]
        return cls(tuple(states), torch.is_autocast_cache_enabled())

    @property
    def dtype(self) -> torch.dtype | None:
        """The lower precision in use; None when autocast is off."""
        return next((dtype for _, dtype in self.states if dtype is not None), None)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Run a block under these settings."""
        with contextlib.ExitStack() as stack:
            for device, dtype in self.states:
                enabled = dtype is not None
                if enabled or torch.is_autocast_enabled(device):
                    block = torch.autocast(
                        device, dtype, enabled=enabled, cache_enabled=self.caches
                    )
                    stack.enter_context(block)
            yield


@functools.cache
def _no_autocast() -> Autocast:
    return Autocast(tuple((device, None) for device in devices()))


@contextlib.contextmanager
def without_autocast() -> Iterator[None]:
    """Run a block whose operators already carry their final dtypes."""
    with contextlib.ExitStack() as stack:
        for device in devices():
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@dataclasses.dataclass(slots=True)
class Kept:
    """A tensor kept by reference, and how to tell that it was written since."""

    tensor: torch.Tensor
    version: int
    fingerprint: bytes

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Kept:
        """Keep a tensor."""
        return cls(tensor, _version(tensor), _fingerprint(tensor))

    @classmethod
    def unmarked(cls, tensor: torch.Tensor) -> Kept:
        """Keep a tensor by its version alone."""
        return cls(tensor, _version(tensor), b"")

    @property
    def is_unchanged(self) -> bool:
        """Whether the tensor still holds what it held.

        Memory shared with NumPy is written without a new version, so a few of the
        elements of tensors on the host are compared too.
        """
        if _version(self.tensor) != self.version:
            return False
        # The module itself may have asked for the gradient of its input since.
        return not self.fingerprint or (
            _fingerprint(self.tensor.detach()) == self.fingerprint
        )


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _fingerprint(tensor: torch.Tensor) -> bytes:
    if type(tensor) is not torch.Tensor or not tensor.is_cpu:
        return b""
    if tensor.layout is not torch.strided:
        return b""
    # Only memory that is shared with NumPy is written without a new version, and
    # sharing it takes the storage's right to be resized.
    if tensor.untyped_storage().resizable():
        return b""
    if tensor.requires_grad or not tensor.is_contiguous():
        return b""
    if tensor.dtype not in _NUMPY:
        tensor = tensor.view(_BITS[tensor.element_size()])
    values = tensor.numpy().reshape(-1)
    return values[:: max(1, values.size // _SAMPLES)].tobytes()


@dataclasses.dataclass(slots=True)
class Forward:
    """One call of the watched module, as an event of the step's program.

    Attributes:
        subject: what was called, without compiled or distributed wrappers.
        args: positional arguments, by reference; what an earlier event of the step made
            stands in its slot.
        kwargs: keyword arguments, by reference.
        kept: the tensors among them, with their versions.
        random: random state before the call.
        autocast: mixed precision at the call.
        buffers: buffers that the call changes, before it.
        training: whether the module was in training mode.
        place: the user's line of the call.
        outputs: slots of the tensors it returned; filled in after the call.
        host: state of Python's and NumPy's generators before a call that draws from
            them.
    """

    subject: Lasting
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    kept: tuple[Kept, ...]
    random: RandomState
    autocast: Autocast
    buffers: BufferSnapshot
    training: bool
    place: Place | None
    outputs: tuple[int, ...] = ()
    host: HostState | None = None

    @property
    def module(self) -> torch.nn.Module:
        """The module that was called."""
        return self.subject.module

    @classmethod
    def of(
        cls,
        subject: Lasting,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        buffers: BufferSnapshot,
        place: Place | None = None,
        generators: Sequence[torch.Generator] = (),
    ) -> Forward:
        """Keep what a call about to be made needs."""
        return cls(
            subject,
            args,
            kwargs,
            tuple(map(Kept.of, flat(args, kwargs))),
            RandomState.now(generators),
            Autocast.now(),
            buffers,
            subject.module.training,
            place,
        )
