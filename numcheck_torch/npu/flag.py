# SPDX-License-Identifier: Apache-2.0
"""The sticky overflow flag of an NPU in saturation mode.

Any overflow since the flag was last cleared sets it: one of an intermediate result
inside a kernel too, and one in memory nobody has written yet. There is one flag for
the process, so another reader, a loss scaler say, may clear it in between. A reading
therefore says True, False, or None for "somebody else cleared it".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from numcheck_torch.doors import listen, unlisten
from numcheck_torch.npu.door import ask, module
from numcheck_torch.npu.mode import mode
from numcheck_torch.npu.stand_in import simulated

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

__all__ = ["OverflowFlag", "overflow_flag"]

_CLEAR: Final = "clear_npu_overflow_flag"
_GET: Final = "get_npu_overflow_flag"
_PATIENCE: Final = 2  # replays in vain before readings are passed over
_RAREST: Final = 10  # then one reading in 1024 is heeded


def overflow_flag(
    model: torch.nn.Module | None = None, *, listening: bool = False
) -> OverflowFlag | None:
    """Return the flag where it exists: on an NPU in saturation mode.

    Args:
        model: what runs; where the arithmetic of another device is simulated for it,
            that device's flag is meant.
        listening: whether to notice others who clear it; then `close` it at the end.
    """
    machine = None if model is None else simulated(model)
    if machine is not None:
        return None if machine.flag is None else OverflowFlag(machine.flag)
    npu = module()
    if npu is None or mode() != "saturation" or not hasattr(npu, _GET):
        return None
    flag = OverflowFlag(npu)
    if listening:
        flag.listen()
    return flag


class OverflowFlag:
    """The flag, bracketed: cleared on entering, read on leaving.

    Reading waits for the device. Do it once a step, or in a replay.

    Args:
        npu: ``torch.npu``, or what answers in its place.

    Attributes:
        is_set: the last reading; None while nothing was read, and when somebody else
            cleared the flag before it could be read.
        others: how often somebody else cleared it since it was last cleared here.
        is_heeded: whether the last reading deserves a replay. A flag that is set at
            reading after reading, for nothing, is heeded ever more rarely.
    """

    def __init__(self, npu: Any) -> None:
        self.is_set: bool | None = None
        self.others = 0
        self.is_heeded = False
        self._in_vain = 0
        self._passed = 0
        self._npu = npu
        self._is_mine = False

    def __enter__(self) -> Self:
        """Clear the flag."""
        self.clear()
        return self

    def __exit__(self, *exception: object) -> None:
        """Read the flag into `is_set`."""
        self.read()

    def clear(self) -> None:
        """Clear the flag."""
        self._mine(_CLEAR)
        self.others = 0

    def read(self) -> bool | None:
        """Return whether an overflow happened since the flag was cleared.

        A flag that is set stays set. None: somebody else cleared it, and what came
        before is not known.
        """
        found = self._mine(_GET)
        unknown = found is None or (not found and self.others > 0)
        self.is_set = None if unknown else bool(found)
        if not found:
            self._in_vain = 0
        self.is_heeded = bool(found) and self._is_due()
        return self.is_set

    def judge(self, *, in_vain: bool) -> None:
        """Learn whether the replay that a reading led to found nothing."""
        self._in_vain = self._in_vain + 1 if in_vain else 0
        self._passed = 0

    def _is_due(self) -> bool:
        """Whether enough readings in a row were set, and more after each in vain."""
        self._passed += 1
        doubled = min(max(self._in_vain - _PATIENCE, 0), _RAREST)
        return self._passed >= 1 << doubled

    def listen(self) -> None:
        """Notice from now on when others clear the flag."""
        for owner in self._owners():
            listen(owner, _CLEAR, after=self._heard)

    def close(self) -> None:
        """Stop listening for other readers."""
        for owner in self._owners():
            unlisten(owner, _CLEAR, self)

    def _mine(self, name: str) -> Any:
        before, self._is_mine = self._is_mine, True
        try:
            return ask(self._npu, name)
        finally:
            self._is_mine = before

    def _heard(self, args: tuple[Any, ...], kwargs: dict[str, Any], _: Any) -> None:
        if not self._is_mine:
            self.others += 1

    def _owners(self) -> Iterator[Any]:
        """Yield the places where the functions can be called by others."""
        yield self._npu
        utils = getattr(self._npu, "utils", None)
        if utils is not None:
            yield utils
