# SPDX-License-Identifier: Apache-2.0
"""A step run equation by equation with one equation, or one number, changed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.measure import summarize
from numcheck.record.notice import notice
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.lifting import Lifting
from numcheck_jax.interpreter.unmeasured import EachEquation, UnmeasuredTape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.extend.core import ClosedJaxpr, JaxprEqn

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import Trace
    from numcheck_jax.interpreter.cell import Frame

    _Again = Callable[[JaxprEqn, Sequence[Any]], Sequence[Any]]

__all__ = ["operator_on_cpu", "operator_wider", "with_factor"]


class _Enough(Exception):  # noqa: N818 - no error: what was wanted is there
    """The equation that was looked for has run."""


class _Alone(UnmeasuredTape):
    """Evaluates the equation that made a site a second time, in another way.

    The rest runs as it did when the site was recorded, so that what was compiled then
    serves again.
    """

    def __init__(
        self, trace: Trace, site: Site, again: _Again, *, beside: bool
    ) -> None:
        super().__init__(Lifting("float32") if beside else None)
        self.result: Summary | None = None
        self.own: Any = None
        self._op = site.op
        self._output = site.output
        self._again = again
        self._before = trace.runs_before(site)

    def note(
        self,
        eqn: JaxprEqn,
        operands: Sequence[Cell],
        values: Sequence[Any],
        frame: Frame,
        shadows: Sequence[Any] | None = None,
    ) -> list[Cell]:
        """Note an equation's outputs; the one looked for is run again."""
        k = self._output
        if eqn.primitive.name == self._op and k < len(values) and self.wants(eqn, k):
            if not self._before:
                found = self._again(eqn, [c.value for c in operands])
                self.own, self.result = values[k], summarize(np.asarray(found[k]))
                raise _Enough
            self._before -= 1
        return super().note(eqn, operands, values, frame, shadows)


class _OtherFactor(EachEquation):
    """Puts a number in the place of another that multiplies a scalar."""

    def __init__(self, factor: float, other: float) -> None:
        super().__init__()
        self.met = 0
        self._factor = factor
        self._other = other

    def values_of(
        self, eqn: JaxprEqn, operands: Sequence[Cell]
    ) -> tuple[list[Any], list[Any] | None]:
        """Compute an equation, with the other number where it reads the factor."""
        aval: Any = eqn.outvars[0].aval
        if eqn.primitive.name == "mul" and not aval.shape:
            at = next((i for i in (1, 0) if self._is_factor(operands[i].value)), None)
            if at is not None:
                self.met += 1
                operands = list(operands)
                known = operands[at]
                other = np.asarray(self._other, jax.typeof(known.value).dtype)
                operands[at] = Cell(other, known.node, known.shadow)
        return super().values_of(eqn, operands)

    def _is_factor(self, value: Any) -> bool:
        return float(np.asarray(value, np.float64)) == self._factor


def operator_wider(
    closed: ClosedJaxpr,
    args: Sequence[Any],
    trace: Trace,
    site: Site,
    name: Literal["float32", "float64"],
    *,
    beside: bool = False,
) -> Summary:
    """Return what one equation gives in a wider format, with the operands it had.

    Args:
        closed: the program.
        args: its flat arguments.
        trace: the recorded step.
        site: one of its sites, whose equation is run.
        name: the wider format.
        beside: whether the step was recorded beside float32.

    Raises:
        CannotRunError: the value was not met again.
    """
    lifting = Lifting(name)

    def again(eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        wide = jax.enable_x64(True) if name == "float64" else contextlib.nullcontext()  # noqa: FBT003 - JAX's own signature
        with wide:
            found = lifting.bind(eqn, [lifting.value(v) for v in values])
            return [np.asarray(value) for value in found]

    return _alone(closed, args, trace, site, again, beside=beside)


def operator_on_cpu(
    closed: ClosedJaxpr,
    args: Sequence[Any],
    trace: Trace,
    site: Site,
    *,
    beside: bool = False,
) -> Summary:
    """Return what one equation gives on the CPU, with the operands it had.

    Args:
        closed: the program.
        args: its flat arguments.
        trace: the recorded step.
        site: one of its sites, whose equation is run.
        beside: whether the step was recorded beside float32.

    Raises:
        CannotRunError: the value was not met again, or JAX has no CPU here.
    """
    try:
        cpu = jax.local_devices(backend="cpu")[0]
    except RuntimeError as error:
        raise CannotRunError("refusal.no_cpu") from error
    same = Lifting("same")

    def again(eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        with jax.default_device(cpu):
            return same.bind(eqn, [jax.device_put(v, cpu) for v in values])

    return _alone(closed, args, trace, site, again, beside=beside)


def _alone(
    closed: ClosedJaxpr,
    args: Sequence[Any],
    trace: Trace,
    site: Site,
    again: _Again,
    *,
    beside: bool,
) -> Summary:
    tape = _Alone(trace, site, again, beside=beside)
    with contextlib.suppress(_Enough):
        tape.run(closed, args)
    if tape.result is None:
        raise CannotRunError(notice("refusal.in_loop", op=site.op))
    recorded = trace.at(*next(iter(trace.summaries))).summary(site)
    own = summarize(np.asarray(tape.own))
    if recorded is not None and (own.is_finite, own.amax) != (
        recorded.is_finite,
        recorded.amax,
    ):
        raise CannotRunError(notice("refusal.operator_differs", op=site.op))
    return tape.result


def with_factor(
    closed: ClosedJaxpr, args: Sequence[Any], factor: float, other: float
) -> list[Any]:
    """Return a program's outputs with another number where a scalar is scaled.

    Raises:
        CannotRunError: nothing was multiplied by the factor.
    """
    tape = _OtherFactor(factor, other)
    outs = tape.run(closed, args)
    if not tape.met:
        raise CannotRunError(notice("refusal.loss_not_scaled", factor=factor))
    return outs
