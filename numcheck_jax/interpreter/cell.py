# SPDX-License-Identifier: Apache-2.0
"""What the interpreter keeps for each variable of a jaxpr."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from numcheck_jax.scope import Place

if TYPE_CHECKING:
    from numcheck.record.site import SourceLine

__all__ = ["Cell", "Frame"]


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A value on its way through the program.

    Attributes:
        value: the array, concrete or traced.
        node: the node of the data-flow graph that made it; None for a constant
            written in the program.
        shadow: the value the lifted program has here; None when it is the same.
    """

    value: Any
    node: int | None = None
    shadow: Any = None

    @property
    def lifted(self) -> Any:
        """The value the lifted program has here."""
        return self.value if self.shadow is None else self.shadow


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """The surroundings of the equations of one jaxpr.

    Attributes:
        place: place of the equation whose body this is.
        line: the user's line of that equation.
        iteration: loop counters around it, outermost first.
    """

    place: Place = dataclasses.field(default_factory=Place)
    line: SourceLine | None = None
    iteration: tuple[int, ...] = ()
