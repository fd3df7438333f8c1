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
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from torch.autograd import Function

from numcheck_torch.places import nearest_place
from numcheck_torch.transforms import transform
from numcheck_torch.trees import tensors

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck_torch.window import Window

__all__ = ["listen", "unlisten"]

_PLAIN: Final = Function.__dict__["apply"]
_LISTENING: Final[list[weakref.ref[Window]]] = []
_LOCK: Final = threading.RLock()
_REFUSAL: Final = "refusal.own_autograd_function"


def listen(window: Window) -> None:
    """Write calls down in a window while the loss is under way in it."""
    with _LOCK:
        if Function.__dict__["apply"] is _PLAIN:
            Function.apply = _HEARD  # type: ignore[method-assign]
        _LISTENING.append(weakref.ref(window))


def unlisten(window: Window | None) -> None:
    """Stop it; the last one gives the class its own method back.

    Args:
        window: one of them; None for those that are gone.
    """
    with _LOCK:
        _LISTENING[:] = [r for r in _LISTENING if r() not in (window, None)]
        # What somebody else put there meanwhile is theirs.
        if not _LISTENING and Function.__dict__["apply"] is _HEARD:
            Function.apply = _PLAIN  # type: ignore[method-assign]


@functools.wraps(Function.apply)
def _apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    for reference in tuple(_LISTENING):
        window = reference()
        if window is None:
            unlisten(None)
        elif window.is_taped and transform() is None:
            return _written(cls, args, kwargs)
    return _PLAIN.__get__(None, cls)(*args, **kwargs)


def _written(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function, and write the call down where it reads a value of a step's."""
    windows = [w for reference in _LISTENING if (w := reference()) and w.is_open]
    with contextlib.ExitStack() as stack:
        try:
            finish = _begun(cls, args, kwargs, windows, stack)
        except Exception:  # noqa: BLE001 - the user's call runs whatever it is given
            finish = _give_up(windows)
        out = _PLAIN.__get__(None, cls)(*args, **kwargs)
        try:
            finish(out)
        except Exception:  # noqa: BLE001 - as above, of what it returned
            _give_up(windows)
    return out


def _begun(
    cls: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    windows: list[Window],
    stack: contextlib.ExitStack,
) -> Callable[[object], None]:
    """Begin to write a call down; return what to do with its result."""
    read = list(tensors((args, kwargs)))
    reading = [w for w in windows if any(map(w.program.concerns, read))]
    place = nearest_place(sys._getframe(3))
    given = [(t, t._version) for t in read if not t.is_inference()]
    notes = [
        stack.enter_context(w.written_as_one(cls.apply, args, kwargs, place))
        for w in reading
    ]

    def finish(out: object) -> None:
        for note in notes:
            note(out)
        written = [t for t, version in given if t._version != version]
        for window in reading:
            if not all(map(window.program.is_own, written)):
                # Run again, it would write to the program's own tensors.
                window.program.gap = _REFUSAL

    return finish


def _give_up(windows: list[Window]) -> Callable[[object], None]:
    """Say that steps cannot be run again: a call of theirs could not be written."""
    for window in windows:
        window.program.gap = _REFUSAL
    return lambda _: None


_HEARD: Final[Any] = classmethod(_apply)
