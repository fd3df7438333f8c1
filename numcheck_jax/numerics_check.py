# SPDX-License-Identifier: Apache-2.0
"""The check a user inserts by hand."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
from jax.extend import source_info_util

from numcheck.diagnose import diagnose
from numcheck.diagnose.incident import Incident
from numcheck.errors import ArgumentTypeError, NonFiniteError
from numcheck.measure import summarize
from numcheck.record.site import Site
from numcheck.record.trace import TraceBuilder
from numcheck.report.raised import raised_text
from numcheck_jax.boundary import BOUNDARY
from numcheck_jax.identity import lane_detail, lane_of, watched
from numcheck_jax.naming import result_name
from numcheck_jax.scope import place_of
from numcheck_jax.sentinel import is_watchable
from numcheck_jax.source import user_line

if TYPE_CHECKING:
    import weakref
    from collections.abc import Sequence

    from numcheck.record.site import SourceLine
    from numcheck_jax.boundary import Mailbox
    from numcheck_jax.identity import Levels

__all__ = ["check_numerics"]

_Tree = TypeVar("_Tree")


def check_numerics(x: _Tree, name: str) -> _Tree:
    """Return `x` unchanged, and report a NaN or Inf in it or in its gradient.

    Works under `jax.jit`, `jax.grad`, `jax.vmap`, `jax.lax.scan`, `jax.checkpoint`
    and `jax.shard_map`. Use what is returned: a check whose result nobody reads is
    removed with it. Inside a watched step the monitor takes the report. Elsewhere it
    is raised: at once for a value at hand, by the failing program itself when it was
    compiled (JAX wraps the error then), and by the next check.

    Args:
        x: an array, or a pytree of arrays. What is not a float passes unchecked.
        name: what to call it in the report.

    Raises:
        NonFiniteError: `x`, or a value checked before, holds a NaN or an Inf.
        ArgumentTypeError: `name` is not a text.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> jax.jit(lambda x: 2 * check_numerics(x, "hidden"))(jnp.float32(1.5))
        Array(3., dtype=float32)
    """
    label: object = name
    if not isinstance(label, str):
        raise ArgumentTypeError(f"name must be a text, got {type(label).__name__}")
    _raise_waiting()
    info = source_info_util.current()
    scope = place_of(source_info_util.current_name_stack()).scope
    leaves, treedef = jax.tree_util.tree_flatten_with_path(x)
    checked = []
    for path, leaf in leaves:
        if is_watchable(leaf):
            place = CheckedPlace(
                name + result_name(path), scope, user_line(info), BOUNDARY.tracer
            )
            checked.extend(watched(place, [jnp.asarray(leaf)]))
        else:
            checked.append(leaf)
    found: _Tree = jax.tree.unflatten(treedef, checked)
    return found


def _raise_waiting() -> None:
    """Raise what programs found since Python had the word last."""
    if findings := BOUNDARY.collect():
        raise NonFiniteError(findings, raised_text(findings))


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedPlace:
    """A place of the user's program with a check.

    Attributes:
        name: what the user calls the value.
        scope: path of module names.
        source: the user's line.
        owner: the monitor in whose watched function it stands, where that was traced
            into a larger program.
    """

    name: str
    scope: str
    source: SourceLine | None
    owner: weakref.ref[Mailbox] | None = None

    def found(
        self,
        values: Sequence[Any],
        context: Sequence[Any],
        *,
        backward: bool,
        which: Sequence[int],
        batched: Sequence[Levels],
        live: bool,
    ) -> None:
        """Report a value or cotangent that is not finite.

        Raises:
            NonFiniteError: no watched step is under way that could take the report.
        """
        if BOUNDARY.is_muted:
            return
        lane = lane_of(values[:1], batched)
        findings = diagnose(self._incident(values[0], lane, backward=backward))
        if not BOUNDARY.post(findings, self.owner):
            if not live:
                BOUNDARY.wait(findings)
            raise NonFiniteError(findings, raised_text(findings))

    def _incident(
        self, value: Any, lane: tuple[int, ...] | None, *, backward: bool
    ) -> Incident:
        builder = TraceBuilder(step=0)
        builder.add(
            Site(
                index=0,
                op=f"gradient:{self.name}" if backward else f"output:{self.name}",
                phase="backward" if backward else "forward",
                kind="kept",
                role="gradient" if backward else "output",
                effect="move",
                dtype=str(value.dtype),
                shape=tuple(value.shape),
                scope=self.scope,
                source=self.source,
                detail=lane_detail(lane),
            ),
            summarize(value),
        )
        trace = builder.build(framework="jax", jax=jax.__version__)
        return Incident(trace, step=0, settings={"framework": "jax"})
