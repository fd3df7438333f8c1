# SPDX-License-Identifier: Apache-2.0
"""What a question of the triage is answered with, and from what."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numcheck.diagnose.finding import Field, Finding
    from numcheck.diagnose.incident import Experiment, Setting
    from numcheck.record.trace import Event, StepView, Trace

__all__ = ["QUESTIONS", "Answer", "Known", "Question", "Verdict"]

Verdict = Literal["yes", "no", "not_measured", "not_applicable"]
Question = Literal[
    "first_step",
    "input_scale",
    "activations",
    "gradients",
    "float32",
    "device_flag",
    "operator",
    "normalisation",
    "clipping",
    "initialisation",
]
QUESTIONS: Final[tuple[Question, ...]] = get_args(Question)
"""In the order in which they are asked."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """One answer. Nothing is guessed: what was not measured says so.

    Attributes:
        question: which one; its text is ``triage.QUESTION.title``.
        verdict: yes, no, not measured, or not applicable: there is nothing of the kind.
        fields: the measured values that the answer's text names.
        text: which text of the question answers it; by default the verdict's.
    """

    question: Question
    verdict: Verdict
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """Everything a question may look at.

    Attributes:
        trace: what was recorded; None when nothing was.
        findings: the most important first.
        settings: what is known of the training.
        experiments: what running the failing step again showed.
        events: scalars by step.
        departures: relative L2 error of sites against a float32 shadow, where one ran.
    """

    trace: Trace | None = None
    findings: Sequence[Finding] = ()
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    experiments: Sequence[Experiment] = ()
    events: Sequence[Event] = ()
    departures: Mapping[int, float] | None = None

    @property
    def error(self) -> Finding | None:
        """The most important error; None when there is none."""
        return next((f for f in self.findings if f.severity == "error"), None)

    @property
    def view(self) -> StepView | None:
        """The step to look at: the failing one where it was recorded, else the last."""
        if self.trace is None or not self.trace.summaries:
            return None
        wanted = (self.error.step, self.error.rank) if self.error else None
        key = wanted if wanted in self.trace.summaries else max(self.trace.summaries)
        return self.trace.at(*key)  # type: ignore[misc]

    @property
    def views(self) -> Iterator[StepView]:
        """The step to look at, then those recorded before it, the latest first."""
        view = self.view
        if self.trace is None or view is None:
            return
        yield view
        for step, rank in sorted(self.trace.summaries, reverse=True):
            if rank == view.rank and step < view.step:
                yield self.trace.at(step, rank)
