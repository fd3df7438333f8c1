# SPDX-License-Identifier: Apache-2.0
"""The line between numcheck's own errors and the user's program."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.errors import NonFiniteError

if TYPE_CHECKING:
    from types import TracebackType

    from numcheck.monitor import Monitor

__all__ = ["Guard"]


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """Records what fails inside its block and goes on; findings pass.

    Attributes:
        monitor: who records it.
        where: what was being done, for the record.
    """

    monitor: Monitor
    where: str

    def __enter__(self) -> None:
        """Start the block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        """Swallow an error of numcheck's own."""
        if not isinstance(error, Exception):
            return False
        if isinstance(error, NonFiniteError | Warning):
            return False
        self.monitor.fault(self.where)
        return True
