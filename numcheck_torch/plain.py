# SPDX-License-Identifier: Apache-2.0
"""Copies and pickles of a watched module come out as if it had never been watched.

A method on the instance is what both `copy.deepcopy` and `pickle` ask first; the class
of the user's module stays untouched.
"""

from __future__ import annotations

import collections
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from numcheck_torch.monitor import TorchMonitor

__all__ = ["attach", "detach"]

_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
_OURS = ("numcheck", "__reduce_ex__")


def attach(model: torch.nn.Module, monitor: TorchMonitor) -> None:
    """Put ``model.numcheck`` in place, and see to plain copies."""
    object.__setattr__(model, "numcheck", monitor)
    object.__setattr__(model, "__reduce_ex__", _reducer(model, monitor))


def detach(model: torch.nn.Module) -> None:
    """Undo `attach`, but leave the monitor to be read."""
    model.__dict__.pop("__reduce_ex__", None)


def _reducer(model: torch.nn.Module, monitor: TorchMonitor) -> Any:
    subject, owner = weakref.ref(model), weakref.ref(monitor)

    def reduce(protocol: Any) -> Any:
        module, watching = subject(), owner()
        kind: Any = type(module)
        reduced = kind.__reduce_ex__(module, protocol)
        if module is None or not isinstance(reduced, tuple) or len(reduced) < 3:
            return reduced
        ids = set() if watching is None else watching.hooks.ids(module)
        return (*reduced[:2], _stripped(reduced[2], ids), *reduced[3:])

    return reduce


def _stripped(state: Any, ids: set[int]) -> Any:
    """Return a module's state without what belongs to its monitor."""
    if not isinstance(state, dict):
        return state
    left = {key: value for key, value in state.items() if key not in _OURS}
    for name in _TABLES:
        if name in left:
            kept = [(i, hook) for i, hook in left[name].items() if i not in ids]
            left[name] = collections.OrderedDict(kept)
    return left
