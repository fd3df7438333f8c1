# SPDX-License-Identifier: Apache-2.0
"""Everything known about one failing step, before any rule looks at it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import Evidence, Field
    from numcheck.record.trace import Event, StepView, Trace

__all__ = ["Experiment", "ExperimentName", "Incident", "Setting"]

ExperimentName = Literal[
    "float32",
    "float64",
    "bfloat16",
    "rows",
    "initial_parameters",
    "operator_wider",
    "operator_on_cpu",
    "without_loss_scale",
    "without_clipping",
    "with_clipping",
    "synchronous",
]
Setting = str | int | float | bool


@dataclasses.dataclass(frozen=True, slots=True)
class Experiment:
    """What came out of running the failing step again with one thing changed.

    Attributes:
        name: what was changed.
        result: ``healthy`` the failure went away; ``failed`` it stayed; ``not_run``
            it could not be run, which counts for nothing.
        reason: a recorded remark (`numcheck.record.notice`): why it was not run.
        fields: what was measured, e.g. ``rows``, ``columns``, ``amax``.
    """

    name: ExperimentName
    result: Literal["healthy", "failed", "not_run"]
    reason: str = ""
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Incident:
    """A step that went wrong, or that an audit looked at.

    Attributes:
        trace: full trace of the step (every operator, full summaries).
        step: 0-based step.
        rank: process.
        reproduced: whether the replay that gave `trace` failed as the program did;
            None when the trace is the program's own run.
        experiments: by name, those that were asked for.
        departures: for a step run beside its float32 shadow: relative L2 error of
            each site's value against the shadow's, by site index (Inf where one of
            the two is not finite); None without a shadow.
        history: scalars of the steps before, oldest first.
        settings: what is known of the training: ``optimizer``, ``lr``, ``momentum``,
            ``eps``, ``autocast``, ``loss_scale``, ``clip_norm``, ``device``,
            ``framework`` ("torch" or "jax"), ``classes`` (number of classes)….
        notes: what could not be watched or done, for the report.
        batch: what the checks of data saw in the batch; it sharpens causes and
            accuses nothing.
    """

    trace: Trace
    step: int
    rank: int = 0
    reproduced: bool | None = None
    experiments: Mapping[str, Experiment] = dataclasses.field(default_factory=dict)
    departures: Mapping[int, float] | None = None
    history: tuple[Event, ...] = ()
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    notes: tuple[Evidence, ...] = ()
    batch: tuple[Evidence, ...] = ()

    @property
    def view(self) -> StepView:
        """The failing step of the trace."""
        return self.trace.at(self.step, self.rank)

    def went(self, name: ExperimentName) -> Literal["healthy", "failed"] | None:
        """Return how an experiment went; None when it was not run."""
        done = self.experiments.get(name)
        return None if done is None or done.result == "not_run" else done.result
