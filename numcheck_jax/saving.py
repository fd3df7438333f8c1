# SPDX-License-Identifier: Apache-2.0
"""Chosen tensors of chosen steps, kept in the run folder for a look offline."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from numcheck.errors import ArgumentError
from numcheck_jax.capture import is_deleted
from numcheck_jax.kept_programs import KeptPrograms
from numcheck_jax.replay import kept_name
from numcheck_jax.roles import assign
from numcheck_jax.shares import share
from numcheck_jax.tracing import program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numcheck.record.run_folder import RunWriter
    from numcheck_jax.capture import Call
    from numcheck_jax.results import Key, Result
    from numcheck_jax.roles import Roles
    from numcheck_jax.tracing import Program

__all__ = ["Saving"]


class Saving:
    """Writes what a pattern names, once every so many steps.

    Args:
        pattern: as of a shell, matched with ``loss``, ``gradient:NAME``,
            ``output:NAME``, ``parameter:NAME`` and ``state:NAME``; what a step
            continues is kept as it was before.
        every: number of steps from one file to the next.
        run: the run folder that gets ``witness/step-00000000.safetensors``.
        find_loss: where the user says the loss stands in a result.

    Raises:
        ArgumentError: there is no run folder.
    """

    def __init__(
        self,
        pattern: str,
        every: int,
        run: RunWriter | None,
        find_loss: Callable[[Result], Key | None],
    ) -> None:
        if run is None:
            raise ArgumentError("save= keeps tensors in the run folder; give run= too")
        self._pattern = pattern
        self._every = every
        self._run = run
        self._find_loss = find_loss
        self._known: KeptPrograms[tuple[Program, Roles]] = KeptPrograms()

    def is_due(self, step: int) -> bool:
        """Whether this step's tensors are kept."""
        return step % self._every == 0

    def keep(self, call: Call, result: Result) -> bool:
        """Write the tensors of a step; return whether the pattern names any.

        Args:
            call: the step, its arguments still held.
            result: what it gave.

        Raises:
            CannotRunError: the function cannot be traced, so that nothing has a name.
        """
        chosen = {
            name: np.asarray(share(value))
            for name, value in self._named(call, result)
            if fnmatch.fnmatchcase(name, self._pattern) and _is_storable(value)
        }
        if chosen:
            self._run.witness(f"step-{call.step:08d}", chosen)
        return bool(chosen)

    def _named(self, call: Call, result: Result) -> Iterator[tuple[str, Any]]:
        """Yield every value of a step that has a name."""
        program, roles = self._known.find(call) or self._traced(call, result)
        for position, role in roles.sources.items():
            if role in ("parameter", "state"):
                yield f"{role}:{call.names[position]}", call.leaves[position]
        values = dict(result.items())
        for key in program.outputs:
            if key in values and roles.kept[key] not in ("parameter", "state"):
                yield kept_name(call, program, roles, key), values[key]

    def _traced(self, call: Call, result: Result) -> tuple[Program, Roles]:
        program = program_of(call)
        made = program, assign(call, program, self._find_loss(result))
        self._known.keep(call, program.inputs, made)
        return made


def _is_storable(value: Any) -> bool:
    if is_deleted(value):
        return False
    return not jnp.issubdtype(jax.typeof(value).dtype, jax.dtypes.extended)
