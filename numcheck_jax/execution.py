# SPDX-License-Identifier: Apache-2.0
"""How a call is run: by the user's own function, or by a program in its place."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.laboratory import CannotRunError
from numcheck_jax import flax_nnx
from numcheck_jax.jitted import compiler_options
from numcheck_jax.kept_programs import KeptPrograms
from numcheck_jax.notices import CHANGING, ROUNDED
from numcheck_jax.roles import assign
from numcheck_jax.substitute import can_stand_in, substitute
from numcheck_jax.tracing import program_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numcheck.options import Level
    from numcheck_jax.capture import Call
    from numcheck_jax.compiled import Policy
    from numcheck_jax.substitute import Substitute

__all__ = ["Execution", "Plan", "named"]

_POLICIES: Final[Mapping[Level, Policy | None]] = {
    "watch": None,
    "anchors": "anchors",
    "trace": "all",
}


_EXCESS: Final = "xla_allow_excess_precision"


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What runs a call.

    Attributes:
        substitute: a program that measures or goes back; None when none is wanted.
        in_place: whether it runs instead of the function; else beside it.
        reason: key of why no such program could be made; empty when it could.
        cautions: what is to be known of its results and of its making.
    """

    substitute: Substitute | None = None
    in_place: bool = False
    reason: str = ""
    cautions: tuple[str, ...] = ()


class Execution:
    """Makes and keeps the programs that run a function's calls."""

    def __init__(
        self,
        level: Level,
        *,
        rollback: bool,
    ) -> None:
        """Run calls as the options say.

        Args:
            level: what is measured at every step.
            rollback: whether a step that broke hands back the old state.
        """
        self._policy = _POLICIES[level]
        self._rollback = rollback
        self._plans: KeptPrograms[Plan] = KeptPrograms()

    @property
    def is_plain(self) -> bool:
        """Whether the user's own function alone is ever run."""
        return self._policy is None and not self._rollback

    def plan(self, call: Call) -> Plan:
        """Return what runs a call; made once for each kind of call."""
        if self.is_plain:
            return Plan()
        plan = self._plans.find(call)
        if plan is not None:
            return plan
        plan = self._made(call)
        made = plan.substitute
        if self._plans.keep(call, None if made is None else made.program.inputs, plan):
            return dataclasses.replace(plan, cautions=(*plan.cautions, CHANGING))
        return plan

    def _made(self, call: Call) -> Plan:
        try:
            program = program_of(call)
        except CannotRunError as why:
            return Plan(reason=str(why))
        if program.one_branch:
            return Plan(reason="refusal.looks_at_values")
        roles = assign(call, program)
        in_place = can_stand_in(call, program)
        if self._rollback and not in_place:
            return Plan(reason="refusal.only_jitted")
        made = substitute(
            call,
            program,
            roles,
            policy=self._policy,
            rollback=self._rollback,
            in_place=in_place,
        )
        measured = in_place and self._policy is not None
        cautions = (ROUNDED,) if measured and not _is_exact(call) else ()
        return Plan(made, in_place, cautions=cautions)


def _is_exact(call: Call) -> bool:
    """Whether the compiler may not leave out roundings, here and in the user's jit."""
    option = compiler_options(call.function).get(_EXCESS)
    if option is not None:
        return str(option).lower() in ("false", "0")
    flags = os.environ.get("XLA_FLAGS", "").lower().split()
    return f"--{_EXCESS}=false" in flags or f"--{_EXCESS}=0" in flags


@contextlib.contextmanager
def named(*, first: bool) -> Iterator[None]:
    """Give modules names while the function may be traced for the first time."""
    if not first:
        yield
        return
    with flax_nnx.scopes():
        yield
