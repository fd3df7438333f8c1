# SPDX-License-Identifier: Apache-2.0
"""A step run again with its gradients clipped to a global norm.

A JAX step is one program that does not say where its update begins. The data flow of
the recorded step does: the gradient of a parameter is the last value of the backward
run on the way to the parameter's new value.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.diagnose.triage.gradients import gradients_of
from numcheck.measure import summarize
from numcheck.record.notice import notice
from numcheck_jax.interpreter.unmeasured import EachEquation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jax.extend.core import ClosedJaxpr, JaxprEqn

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView
    from numcheck_jax.interpreter.cell import Cell, Frame

    _Place = tuple[str, int, int]
    """An operator's name, its output, and how many like it ran before."""

__all__ = ["with_clipping"]

_SAME = 0.01
"""Relative difference that other rounding may make to a gradient's largest value."""


def with_clipping(
    closed: ClosedJaxpr, args: Sequence[Any], view: StepView, limit: float
) -> list[Any]:
    """Return a program's outputs with its gradients clipped to a global norm.

    Args:
        closed: the program.
        args: its flat arguments.
        view: the step as it was recorded.
        limit: largest norm that the update is given.

    Raises:
        CannotRunError: it is not known where the update takes all of its gradients.
    """
    found = {_place(view, site): view.summary(site) for site in _gradients(view)}
    met = _Scaled(found, 1.0)
    met.run(closed, args)
    if met.norms.keys() != found.keys():
        raise CannotRunError("refusal.loop_holds_gradient")
    norm = math.hypot(*met.norms.values())
    clipped = _Scaled(found, min(1.0, limit / norm) if norm else 1.0)
    return clipped.run(closed, args)


def _gradients(view: StepView) -> list[Site]:
    """Return the operators that make the gradients which the update reads."""
    made = [_operator(view, site) for site in gradients_of(view).values()]
    moved = [
        site
        for site in view.kept()
        if site.role == "parameter" and _operator(view, site).kind == "operator"
    ]
    if not made or len(made) < len(moved):
        raise CannotRunError("refusal.update_inside")
    for site in made:
        read_by = (view.trace.sites[i] for i in view.trace.children.get(site.index, ()))
        if site.kind != "operator" or any(s.phase == "backward" for s in read_by):
            raise CannotRunError("refusal.gradient_read_again")
    return made


def _operator(view: StepView, site: Site) -> Site:
    """Return what made a kept value."""
    while site.kind == "kept" and site.parents:
        site = view.trace.sites[site.parents[0]]
    return site


def _place(view: StepView, site: Site) -> _Place:
    return site.op, site.output, view.trace.runs_before(site)


class _Scaled(EachEquation):
    """Multiplies some operators' results by a factor, and keeps their norms."""

    def __init__(self, wanted: Mapping[_Place, Summary | None], factor: float) -> None:
        super().__init__()
        self.norms: dict[_Place, float] = {}
        self._wanted = wanted
        self._factor = factor
        self._ran: Counter[tuple[str, int]] = Counter()

    def note(
        self,
        eqn: JaxprEqn,
        operands: Sequence[Cell],
        values: Sequence[Any],
        frame: Frame,
        shadows: Sequence[Any] | None = None,
    ) -> list[Cell]:
        """Note an equation's outputs, a gradient among them as what it is scaled to."""
        given = list(values)
        for k, value in enumerate(values):
            if not self.wants(eqn, k):
                continue
            kind = eqn.primitive.name, k
            place = (*kind, self._ran[kind])
            self._ran[kind] += 1
            if place in self._wanted:
                given[k] = self._scaled(place, value)
        return super().note(eqn, operands, given, frame, shadows)

    def _scaled(self, place: _Place, value: Any) -> Any:
        exact = np.asarray(value).astype(np.float64)
        recorded, own = self._wanted[place], summarize(exact)
        if recorded is not None and not _is_like(recorded, own):
            raise CannotRunError(notice("refusal.operator_differs", op=place[0]))
        self.norms[place] = float(np.linalg.norm(exact))
        if self._factor == 1:
            return value
        return jnp.asarray(exact * self._factor, value.dtype)


def _is_like(recorded: Summary, own: Summary) -> bool:
    """Whether two runs made the same value, but for rounding."""
    if recorded.n != own.n or recorded.is_finite != own.is_finite:
        return False
    if recorded.amax is None or own.amax is None:
        return recorded.amax == own.amax
    return math.isclose(recorded.amax, own.amax, rel_tol=_SAME)
