# SPDX-License-Identifier: Apache-2.0
"""How deep in calls of a watched module the program is, also after an interrupt.

A hook after the call is promised for every error but not for an interrupt: whoever
stops a cell of a notebook and starts it again would be taken to be inside the first
call for ever, where nothing is looked at.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["CallDepth"]


class CallDepth:
    """Counts the calls that are under way, one inside another.

    Attributes:
        now: how many there are.
        thread: the one that the last outermost call was made on.

    Example:
        >>> depth, here = CallDepth(), sys._getframe().f_back
        >>> depth.enter(here), depth.enter(here), depth.leave(), depth.leave()
        (1, 2, 1, 0)
    """

    __slots__ = ("_caller", "now", "thread")

    def __init__(self) -> None:
        self.now = 0
        self._caller: FrameType | None = None
        self.thread = 0

    def enter(self, caller: FrameType) -> int:
        """Count a call that begins.

        Args:
            caller: a frame that is there as long as the call is under way.
        """
        if self.now and self._was_interrupted():
            self.now = 0
        self.now += 1
        if self.now == 1:
            self._caller, self.thread = caller, threading.get_ident()
        return self.now

    def leave(self) -> int:
        """Count a call that ends."""
        self.now -= 1
        if self.now == 0:
            self._caller = None
        return self.now

    def _was_interrupted(self) -> bool:
        """Whether the outermost call is over, though nobody said so."""
        if threading.get_ident() != self.thread:
            return False
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self._caller:
            frame = frame.f_back
        return frame is None
