# SPDX-License-Identifier: Apache-2.0
"""The device's own overflow detection, switched on for a block of code.

CANN then checks every kernel and writes a record for each that overflows, with the
operator's values. That slows the program down, so use it for a few steps.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from numcheck.errors import ArgumentError, MissingExtraError
from numcheck.record.foreign import read_dump
from numcheck_torch.npu.door import ask, module

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numcheck.record.trace import Trace

__all__ = ["Detection", "overflow_detection"]


class Detection:
    """What a detection wrote, once its block is over.

    Attributes:
        folder: where it writes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> Trace:
        """Return the operators that overflowed, as a trace.

        Raises:
            DumpError: nothing was written: no kernel overflowed.
        """
        return read_dump(self.folder)


@contextlib.contextmanager
def overflow_detection(folder: str | os.PathLike[str]) -> Iterator[Detection]:
    """Run a block with the device's overflow detection on.

    Args:
        folder: a folder for what it writes; made when missing, and must be empty, so
            that records of an earlier run are not taken for this one's.

    Yields:
        The detection; call its `read` after the block.

    Raises:
        ArgumentError: the folder holds something already.
        MissingExtraError: there is no NPU here.
    """
    npu = module()
    if npu is None or not hasattr(npu, "set_dump"):
        msg = "overflow detection needs an NPU: install numcheck[npu] and CANN"
        raise MissingExtraError(msg)
    home = Path(folder).absolute()
    home.mkdir(parents=True, exist_ok=True)
    if any(home.iterdir()):
        msg = f"folder={str(folder)!r} is not empty; expected a new or empty folder"
        raise ArgumentError(msg)
    config = home / "acl.json"
    config.write_text(
        json.dumps({"dump": {"dump_path": str(home), "dump_debug": "on"}})
    )
    # A process may begin and end dumping only once; later calls are refused.
    ask(npu, "init_dump")
    npu.set_dump(str(config))
    try:
        yield Detection(home)
    finally:
        ask(npu, "finalize_dump")
