# SPDX-License-Identifier: Apache-2.0
"""A value that went bad between the operators that a dump shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Unrecorded"]

_OP: Final = "unrecorded"
"""What readers of foreign dumps call a value that nothing recorded made."""


class Unrecorded:
    """Code that was not recorded made a NaN or Inf out of finite values."""

    id = "N904"

    def match(self, scene: Scene) -> Match | None:
        """Answer for origins at which no operator is known."""
        if scene.site.op != _OP:
            return None
        return Match(self.id, evidence=(Evidence("operands_finite"),))
