# SPDX-License-Identifier: Apache-2.0
"""A step that ran, and what is kept of it until its flag is read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax

from numcheck_jax.sentinel import is_bad

if TYPE_CHECKING:
    from numcheck_jax.capture import Call
    from numcheck_jax.execution import Plan
    from numcheck_jax.results import Key, Result
    from numcheck_jax.sentinel import Flag

__all__ = ["Pending"]


@dataclasses.dataclass(frozen=True, slots=True)
class Pending:
    """A step that ran and whose flag was not read yet.

    Attributes:
        call: the call, with its arguments as they were.
        result: what the user got.
        keys: places of the float values in it, in the order of the flag's table.
        flag: the check, on its way.
        plan: what ran or measured it.
        rows: the statistics it gave; None without.
    """

    call: Call
    result: Result
    keys: tuple[Key, ...]
    flag: Flag
    plan: Plan
    rows: Any = None

    def may_be_told(self) -> bool:
        """Whether acting on it leaves no other process waiting; reads the flag.

        Of several processes one that raises would leave the others in the next step.
        """
        alone = not jax.distributed.is_initialized()
        return alone or not any(is_bad(self.flag.read()))
