# SPDX-License-Identifier: Apache-2.0
"""Autograd functions of the user's own between a module's output and its gradient.

What runs in their forward runs without gradients, and their backward is no operator's:
so a call is written down as one event of the step, as a watched loss function's is,
and made again as a whole.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

from torch.autograd import Function

from numcheck_torch.places import nearest_place
from numcheck_torch.transforms import transform
from numcheck_torch.trees import tensors

if TYPE_CHECKING:
    from numcheck_torch.window import Window

__all__ = ["listen", "unlisten"]

_PLAIN: Final = Function.__dict__["apply"]
_LISTENING: Final[list[weakref.ref[Window]]] = []


def listen(window: Window) -> None:
    """Write calls down in a window while the loss is under way in it."""
    if Function.__dict__["apply"] is _PLAIN:
        Function.apply = _HEARD  # type: ignore[method-assign]
    _LISTENING.append(weakref.ref(window))


def unlisten(window: Window | None) -> None:
    """Stop it; the last one gives the class its own method back.

    Args:
        window: one of them; None for those that are gone.
    """
    _LISTENING[:] = [r for r in _LISTENING if r() not in (window, None)]
    # What somebody else put there meanwhile is theirs.
    if not _LISTENING and Function.__dict__["apply"] is _HEARD:
        Function.apply = _PLAIN  # type: ignore[method-assign]


@functools.wraps(_PLAIN.__func__)
def _apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    for reference in tuple(_LISTENING):
        window = reference()
        if window is None:
            unlisten(None)
        elif window.is_taped and transform() is None:
            return _written(cls, args, kwargs)
    return _PLAIN.__func__(cls, *args, **kwargs)


def _written(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function, and write the call down where it reads a value of a step's."""
    read = list(tensors((args, kwargs)))
    windows = [w for reference in _LISTENING if (w := reference()) and w.is_open]
    reading = [w for w in windows if any(map(w.program.concerns, read))]
    place = nearest_place(sys._getframe(2))
    given = [(t, t._version) for t in read if not t.is_inference()]
    with contextlib.ExitStack() as stack:
        notes = [
            stack.enter_context(w.written_as_one(cls.apply, args, kwargs, place))
            for w in reading
        ]
        out = _PLAIN.__func__(cls, *args, **kwargs)
        for note in notes:
            note(out)
    written = [t for t, version in given if t._version != version]
    for window in reading:
        if not all(map(window.program.is_own, written)):
            # Run again, it would write to the program's own tensors.
            window.program.gap = "refusal.own_autograd_function"
    return out


_HEARD: Final[Any] = classmethod(_apply)
