# SPDX-License-Identifier: Apache-2.0
"""The kernel compiler's own debugging, switched on for a block of code.

Kernels that are compiled inside the block carry what a fault report names them by.
They run slower, and those compiled before stay as they are. Level and folder are
afterwards what they were before.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

from numcheck.errors import ArgumentError, MissingExtraError
from numcheck_torch.npu.door import ask, module, torch_npu

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["DebugLevel", "kernel_debugging"]

DebugLevel = Literal[0, 1, 2, 3, 4]

_LEVEL: Final = "ACL_OP_DEBUG_LEVEL"
_FOLDER: Final = "ACL_DEBUG_DIR"


@contextlib.contextmanager
def kernel_debugging(
    level: DebugLevel, folder: str | os.PathLike[str] | None = None
) -> Iterator[None]:
    """Run a block in which kernels are compiled for debugging, and end that with it.

    Args:
        level: CANN's ``ACL_OP_DEBUG_LEVEL``: 0 off; 1 debug information beside each
            kernel; 2 that, and no optimisation; 3 kernels as usual, kept; 4 that, and
            their source.
        folder: where the compiler leaves its files, made when missing; None for the
            folder it uses anyway.

    Raises:
        ArgumentError: there is no such level.
        MissingExtraError: there is no NPU here.
    """
    given: object = level
    if type(given) is not int or given not in get_args(DebugLevel):
        raise ArgumentError(f"level is one of 0, 1, 2, 3, 4, got {level!r}")
    npu = module()
    if npu is None or not hasattr(npu, "set_option"):
        msg = "debugging kernels needs an NPU: install numcheck[npu] and CANN"
        raise MissingExtraError(msg)
    options = {_LEVEL: str(level)}
    if folder is not None:
        home = Path(folder).absolute()
        home.mkdir(parents=True, exist_ok=True)
        options[_FOLDER] = str(home)
    before = {_LEVEL: _now(_LEVEL) or "0"}
    if folder is not None:
        # The folder the compiler takes when it is given none.
        before[_FOLDER] = _now(_FOLDER) or "./"
    npu.set_option(options)
    try:
        yield
    finally:
        npu.set_option(before)


def _now(option: str) -> str | None:
    """Return what an option is set to; None where it is not, or cannot be asked."""
    held = ask(torch_npu(), "_C._npu_getOption", option)
    text = held.decode() if isinstance(held, bytes) else held
    return text if isinstance(text, str) and text else None
