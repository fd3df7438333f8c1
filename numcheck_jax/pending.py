# SPDX-License-Identifier: Apache-2.0
"""A step that ran, and what is kept of it until its flag is read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax

from numcheck_jax.references import values
from numcheck_jax.results import result_of
from numcheck_jax.sentinel import Flag, is_bad, is_watchable, launch

if TYPE_CHECKING:
    from numcheck_jax.capture import Call
    from numcheck_jax.execution import Plan
    from numcheck_jax.results import Key, Result
    from numcheck_jax.substitute import Ran

__all__ = ["Pending", "launched"]


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


def launched(call: Call, out: Any, plan: Plan, ran: Ran | None) -> Pending:
    """Start the check of what a call gave.

    Args:
        call: the call.
        out: what it returned.
        plan: what ran it.
        ran: what a program in its place or beside it gave.
    """
    after = jax.tree.leaves((call.args, dict(call.kwargs)))
    result = result_of(out, call.given, values(call.given, after))
    watched = [(k, x) for k, x in result.items() if is_watchable(x)]
    keys = tuple(k for k, _ in watched)
    if ran is None or plan.substitute is None:
        flag = launch([x for _, x in watched])
        return Pending(call, result, keys, flag, plan)
    if not plan.in_place or ran.table is None:
        flag = launch([x for _, x in watched])
    else:
        flag = Flag(((tuple(range(len(keys))), ran.table),), len(keys))
        call = plan.substitute.restored(call, out)
    return Pending(call, result, keys, flag, plan, ran.rows)
