# SPDX-License-Identifier: Apache-2.0
"""Keeps what one process runs alone from waiting for others that do not come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numcheck.diagnose.laboratory import CannotRunError
from numcheck_torch.dispatch import LiveMode
from numcheck_torch.events import Operation

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from numcheck_torch.program import Program

__all__ = ["Quiet", "SpeaksError", "spoken"]

_COLLECTIVES: Final = frozenset(
    {"c10d", "_c10d_functional", "_c10d_functional_autograd"}
)
_WAITS: Final = frozenset({"wait_tensor", "_wrap_tensor_autograd"})


class SpeaksError(CannotRunError):
    """What runs takes the other processes too."""


class Quiet(LiveMode):
    """Stops a run before its first collective, as a context manager.

    Example:
        >>> import torch
        >>> with Quiet():
        ...     torch.ones(2).sum()
        tensor(2.)
    """

    def __init__(self) -> None:
        super().__init__(_run_unless_spoken)


def spoken(program: Program) -> tuple[str, ...]:
    """Return the events of a step in which other processes may take part, in order."""
    return tuple(
        str(event.function) if isinstance(event, Operation) else type(event).__name__
        for event in program.events
        if not isinstance(event, Operation)
        or getattr(event.function, "namespace", "") in _COLLECTIVES
    )


def _run_unless_spoken(
    overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if overload.namespace in _COLLECTIVES and (
        overload._schema.name.partition("::")[2] not in _WAITS
    ):
        raise SpeaksError("refusal.speaks")
    return overload(*args, **kwargs)
