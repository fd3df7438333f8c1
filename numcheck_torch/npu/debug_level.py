# SPDX-License-Identifier: Apache-2.0
"""The kernel compiler's own debugging, switched on for a block of code.

Kernels that are compiled inside the block carry what a fault report names them by.
They run slower, and those compiled before stay as they are.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from numcheck.errors import ArgumentError, MissingExtraError
from numcheck_torch.npu.door import module

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["DebugLevel", "kernel_debugging"]

DebugLevel = Literal[0, 1, 2, 3, 4]


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
    options = {"ACL_OP_DEBUG_LEVEL": str(level)}
    if folder is not None:
        home = Path(folder).absolute()
        home.mkdir(parents=True, exist_ok=True)
        options["ACL_DEBUG_DIR"] = str(home)
    npu.set_option(options)
    try:
        yield
    finally:
        npu.set_option({"ACL_OP_DEBUG_LEVEL": "0"})
