# SPDX-License-Identifier: Apache-2.0
"""Which value an error is about: one in the frames it came from, or read last."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from numcheck_torch.trees import tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LastValues"]

_LAST = 12
"""Operators whose values are kept; a test of a value is made of a few."""


class LastValues(TorchDispatchMode):
    """Holds what the last operators read and made, while a step is run again.

    An error with NaN in the variables around it is about that; an Inf may be a mask, so
    it counts only where an operator of the last ones tested it.

    Example:
        >>> with LastValues() as last:
        ...     _ = torch.isfinite(torch.full((2,), torch.inf)).all()
        >>> last.blamed(ValueError())
        tensor([inf, inf])
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._read: collections.deque[list[torch.Tensor]] = collections.deque(
            maxlen=_LAST
        )
        self._tested: collections.deque[list[torch.Tensor]] = collections.deque(
            maxlen=_LAST
        )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator and hold its values."""
        read = [t for t in tensors((args, kwargs)) if t.is_floating_point()]
        # Held before it runs, for it may be the one that fails.
        self._read.append(read)
        out = func(*args, **(kwargs or {}))
        made = list(tensors(out))
        if read and any(t.dtype == torch.bool for t in made):
            self._tested.append(read)
        self._read[-1] = read + [t for t in made if t.is_floating_point()]
        return out

    def blamed(self, error: BaseException) -> torch.Tensor | None:
        """Return the value that an error is about; None where all are finite."""
        around = [t for t in _variables(error) if t.is_floating_point()]
        read = [t for held in reversed(self._read) for t in reversed(held)]
        tested = [t for held in reversed(self._tested) for t in reversed(held)]
        for value in (*around, *read):
            if _plain(value) and bool(value.isnan().any()):
                return value
        for value in tested:
            if _plain(value) and not bool(value.isfinite().all()):
                return value
        return None


def _plain(value: torch.Tensor) -> bool:
    return value.layout is torch.strided and not value.is_meta and not value.is_nested


def _variables(error: BaseException) -> Iterator[torch.Tensor]:
    """Yield the tensors in the variables of the frames of an error, its own first."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in reversed(frames):
        if not frame.f_globals.get("__name__", "").startswith("numcheck_torch."):
            for value in frame.f_locals.values():
                if isinstance(value, torch.Tensor | tuple | list | dict):
                    yield from tensors(value)
