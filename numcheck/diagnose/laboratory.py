# SPDX-License-Identifier: Apache-2.0
"""What an adapter can do with a failing step whose inputs it still holds.

The core decides which experiments to run and what they mean; the adapter only runs
the step again with one thing changed and says what came out.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import Trace

__all__ = ["CannotRunError", "HoldsBatch", "Laboratory", "Outcome"]


class CannotRunError(Exception):
    """An experiment cannot be run here; its text, a recorded remark, says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of the step gave.

    Attributes:
        kept: for each kept value (``loss``, ``gradient:NAME``…), what it held.
        trace: trace of that run, where one was recorded.
        overflowed: whether the device's own flag reported an overflow meanwhile; on a
            device that saturates nothing else tells.
    """

    kept: Mapping[str, Summary]
    trace: Trace | None = None
    overflowed: bool = False

    @property
    def is_healthy(self) -> bool:
        """Whether every kept value that was measured is finite."""
        return not self.overflowed and all(
            s.is_finite is not False for s in self.kept.values()
        )


class Laboratory(Protocol):
    """The failing step, held by an adapter, ready to be run again.

    Every method leaves the user's program, parameters, buffers and random state as
    they were. Every method may raise `CannotRunError`.
    """

    def replay(self) -> Trace:
        """Run the step unchanged with every operator recorded and fully measured."""
        ...

    def in_format(
        self, name: Literal["same", "bfloat16", "float32", "float64"]
    ) -> Outcome:
        """Run the step with its lower-precision dtypes lifted to the named format.

        ``same`` lifts each dtype to itself and must give the bit-equal step; when it
        does not, lifting is not faithful for this program. ``bfloat16`` takes the
        place of float16 alone.
        """
        ...

    def beside_float32(self) -> tuple[Trace, Mapping[int, float]]:
        """Run the step and its float32 lift side by side.

        Returns the step's trace and, by site index, the relative L2 error of the
        site's value against the lifted run's.
        """
        ...

    def rows(self) -> int | None:
        """Return the number of samples in the batch; None when it has no batch axis."""
        ...

    def on_rows(self, rows: Sequence[int]) -> Outcome:
        """Run the step on the given samples only."""
        ...

    def at_initial_parameters(self) -> Outcome:
        """Run the step with the parameters (and state) of the first watched step."""
        ...

    def with_loss_scale(self, factor: float, scale: float) -> Outcome:
        """Run the step with another number where it multiplies the loss by `factor`.

        Args:
            factor: the loss scale in play.
            scale: the number to take in its place; 1 leaves the loss unscaled.
        """
        ...

    def with_clipping(self, limit: float | None) -> Outcome:
        """Run the step and its update on gradients clipped to a global norm.

        Args:
            limit: largest norm that the update is given; None leaves the gradients as
                backward made them, where the program clips them.
        """
        ...

    def operator_wider(
        self, trace: Trace, site: Site, name: Literal["float32", "float64"]
    ) -> Outcome:
        """Run one operator alone in a wider format, with the operands it had.

        Args:
            trace: the recorded step.
            site: one of its sites; the operator that made it is run.
            name: the wider format.

        Returns:
            The site's value there, as ``kept["result"]``.
        """
        ...

    def operator_on_cpu(self, trace: Trace, site: Site) -> Outcome:
        """Run one operator alone on the CPU, with the operands it had in the step.

        Args:
            trace: the recorded step.
            site: one of its sites; the operator that made it is run.

        Returns:
            The site's value there, as ``kept["result"]``.
        """
        ...

    def one_by_one(self) -> Outcome:
        """Run the step, waiting for the device after each operator."""
        ...


@runtime_checkable
class HoldsBatch(Protocol):
    """What a laboratory may offer besides: the batch, to look at its values."""

    def batch(self) -> Mapping[str, NDArray[Any]]:
        """Return the step's inputs and targets on the host, by name.

        Raises:
            CannotRunError: they are no longer what the step was given.
        """
        ...
