# SPDX-License-Identifier: Apache-2.0
"""The program with measurements compiled in, for use at every step."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np

from numcheck import formats
from numcheck_jax.columns import is_float
from numcheck_jax.decoding import decode_rows
from numcheck_jax.families import effect_of
from numcheck_jax.interpreter.cell import Frame
from numcheck_jax.interpreter.lifting import dtype_of
from numcheck_jax.interpreter.loop import interpret
from numcheck_jax.interpreter.rows import NEVER
from numcheck_jax.interpreter.staged import StagedTape
from numcheck_jax.interpreter.table import STAGED
from numcheck_jax.listing import listing
from numcheck_jax.module_outputs import module_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jax.extend.core import ClosedJaxpr, JaxprEqn

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck_jax.columns import Measure

__all__ = ["CompiledTrace", "Policy", "compiled_trace"]

Policy = Literal["anchors", "risky", "all"]
"""``anchors``: matmuls, convolutions and what modules hand on. ``risky``: everything
that can make a non-finite value of finite ones. ``all``: every float, except those that
only lie differently (a transpose holds what its operand holds)."""

_ANCHORS: Final = frozenset(
    ("conv_general_dilated", "dot_general", "ragged_dot_general", "scaled_dot")
)
_GATHERED: Final = frozenset(("add_any", "reduce_sum", "scatter-add", "scatter_add"))
"""Beside matrix products, what the gradient of a parameter comes out of."""
_BOUNDED: Final = frozenset(
    ("cos", "erf", "erfc", "is_finite", "logistic", "sin", "sign", "tanh")
)


_RELAYS: Final = frozenset(
    (
        "broadcast_in_dim",
        "copy",
        "copy_p",
        "expand_dims",
        "name",
        "optimization_barrier",
        "reshape",
        "rev",
        "sharding_constraint",
        "squeeze",
        "stop_gradient",
        "transpose",
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledTrace:
    """A program that also gives the statistics of its own values.

    Attributes:
        function: takes the program's flat arguments and returns its flat outputs and
            uint32[n, columns], one row for each site; to be jitted by the caller.
        sites: what was measured, parents before children.
        rows: for each row the site it belongs to.
        avals: for each row the type and shape of the value.
        constants: what the sites hold that are the same at every step.
        outputs: for each output the site whose value it is, or nearest to it.
        measure: which columns the rows have.
    """

    function: Callable[..., tuple[list[Any], jax.Array]]
    sites: tuple[Site, ...]
    rows: tuple[int, ...]
    avals: tuple[Any, ...]
    constants: Mapping[int, Summary]
    outputs: tuple[int | None, ...]
    measure: Measure

    def summaries(self, rows: Any) -> dict[int, Summary]:
        """Return what each site held, in the order of the sites.

        Sites that were not reached are left out.
        """
        found = dict(self.constants)
        table = np.asarray(rows)
        runs = table[:, -2].tolist()
        alike: dict[Any, list[int]] = {}
        for k, aval in enumerate(self.avals):
            if runs[k]:
                alike.setdefault(aval.dtype, []).append(k)
        for dtype, group in alike.items():
            sizes = [self.avals[k].size * runs[k] for k in group]
            held = decode_rows(table[group, :-2], dtype, sizes, self.measure)
            found.update(zip((self.rows[k] for k in group), held, strict=True))
        return dict(sorted(found.items()))

    def first_iterations(self, rows: Any) -> Mapping[int, int]:
        """Return, for sites in loops, the first iteration that was not finite."""
        first = np.asarray(rows)[:, -1]
        return {
            index: int(i)
            for index, i in zip(self.rows, first, strict=True)
            if i != NEVER
        }


def compiled_trace(
    closed: ClosedJaxpr,
    *,
    in_sites: Sequence[Site] = (),
    policy: Policy = "anchors",
    measure: Measure = "range",
    loss_outputs: Sequence[int] | None = None,
    spread: bool = False,
) -> CompiledTrace:
    """Return the program with one row of statistics for every value of the policy.

    Args:
        closed: the program.
        in_sites: source sites of its arguments, measured as well when given.
        policy: which values are measured.
        measure: which columns a row has.
        loss_outputs: positions of the losses among the flat outputs.
        spread: whether its arguments lie on several devices.
    """
    chosen = _anchors_of(closed) if policy == "anchors" else _POLICIES[policy]
    tape = StagedTape(
        STAGED,
        policy=chosen,
        measure=measure,
        elements=False,
        spread=spread,
        sums=_summed_of(closed, in_sites),
    )
    outputs: list[int | None] = []

    def run(*args: Any) -> tuple[list[Any], jax.Array]:
        if in_sites:
            pairs = zip(args, in_sites, strict=True)
            cells = [tape.source(value, site) for value, site in pairs]
        else:
            cells = [tape.unnamed(value) for value in args]
        consts = [tape.constant(value) for value in closed.consts]
        outs = interpret(tape, closed.jaxpr, consts, cells, Frame())
        outputs.extend(cell.node for cell in outs)
        return [cell.value for cell in outs], _packed(tape)

    avals = [v.aval for v in closed.jaxpr.invars]
    traced = jax.make_jaxpr(run)(*avals)

    def function(*args: Any) -> tuple[list[Any], jax.Array]:
        *outs, rows = jax.core.eval_jaxpr(traced.jaxpr, traced.consts, *args)
        return outs, rows

    listed = listing(tape.graph, outputs, loss_outputs, bridges=True)
    nodes = tape.graph.nodes
    return CompiledTrace(
        function,
        listed.sites,
        tuple(s for n in tape.measured for s in listed.stands_for[n]),
        tuple(nodes[n].aval for n in tape.measured),
        {
            site.index: summary
            for site, n in zip(listed.sites, listed.nodes, strict=True)
            if (summary := nodes[n].summary) is not None
        },
        tuple(listed.site_of(node) for node in outputs),
        measure,
    )


def _is_new(eqn: JaxprEqn) -> bool:
    return _is_float_valued(eqn) and eqn.primitive.name not in _RELAYS


def _anchors_of(closed: ClosedJaxpr) -> Callable[[JaxprEqn], bool]:
    handed_on = module_outputs(closed.jaxpr)
    return lambda eqn: eqn.primitive.name in _ANCHORS or id(eqn) in handed_on


def _summed_of(
    closed: ClosedJaxpr, in_sites: Sequence[Site]
) -> Callable[[JaxprEqn], bool]:
    """Return which equations' large values are added up: anchors and gradients."""
    is_anchor = _anchors_of(closed)
    shapes = {site.shape for site in in_sites if site.role == "parameter"}

    def is_gradient(eqn: JaxprEqn) -> bool:
        shape = getattr(eqn.outvars[0].aval, "shape", None)
        return eqn.primitive.name in _GATHERED and shape in shapes

    return lambda eqn: is_anchor(eqn) or is_gradient(eqn)


def _is_float_valued(eqn: JaxprEqn) -> bool:
    return any(is_float(getattr(v.aval, "dtype", bool)) for v in eqn.outvars)


def _is_risky(eqn: JaxprEqn) -> bool:
    if not _is_float_valued(eqn) or eqn.primitive.name in _BOUNDED:
        return False
    effect = effect_of(eqn, reads_arrays=True)
    if effect != "cast":
        return effect == "compute"
    source, target = dtype_of(eqn.invars[0]), dtype_of(eqn.outvars[0])
    if not is_float(source):
        return True
    return formats.get(target).max < formats.get(source).max


_POLICIES: Final[Mapping[str, Callable[[JaxprEqn], bool]]] = {
    "risky": _is_risky,
    "all": _is_new,
}


def _packed(tape: StagedTape) -> jax.Array:
    """Return all rows as one array, so that they travel in one transfer."""
    rows = tape.rows()
    word = rows.stats.dtype
    extra = jnp.stack([rows.runs.astype(word), rows.first.astype(word)], axis=1)
    return jnp.concatenate([rows.stats, extra], axis=1)
