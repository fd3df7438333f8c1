# SPDX-License-Identifier: Apache-2.0
"""From a failing step and a laboratory that holds it to findings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from numcheck.diagnose.batch import needs_batch, with_batch
from numcheck.diagnose.diagnosis import diagnose
from numcheck.diagnose.experiments import run_experiments
from numcheck.diagnose.laboratory import CannotRunError, HoldsBatch

if TYPE_CHECKING:
    from numcheck.diagnose.experiments import Progress
    from numcheck.diagnose.finding import Evidence, Finding
    from numcheck.diagnose.incident import Incident
    from numcheck.diagnose.laboratory import Laboratory

__all__ = ["Investigation", "investigate"]


class Investigation(NamedTuple):
    """What came out of asking the program.

    Attributes:
        incident: the step, with the experiments that were run on it.
        findings: the most important first; empty when no harm was done.
    """

    incident: Incident
    findings: tuple[Finding, ...]


def investigate(
    incident: Incident,
    laboratory: Laboratory,
    *,
    experiments: bool = True,
    budget_s: float = 30.0,
    progress: Progress | None = None,
) -> Investigation:
    """Return what broke in a step and why, after asking the program itself.

    Args:
        incident: the recorded step.
        laboratory: runs the step again with one thing changed.
        experiments: whether to run anything.
        budget_s: seconds after which no further experiment is started.
        progress: is told before each experiment.
    """
    if experiments:
        ran = run_experiments(
            incident, laboratory, budget_s=budget_s, progress=progress
        )
        incident = dataclasses.replace(
            incident, experiments={**incident.experiments, **ran}
        )
    findings = diagnose(incident)
    if isinstance(laboratory, HoldsBatch) and needs_batch(findings):
        incident = dataclasses.replace(incident, batch=_seen(incident, laboratory))
        findings = with_batch(findings, incident.batch)
    return Investigation(incident, findings)


def _seen(incident: Incident, laboratory: HoldsBatch) -> tuple[Evidence, ...]:
    """Return what the checks of data see in the batch."""
    from numcheck.datacheck.evidence import batch_evidence
    from numcheck.datacheck.settings import Settings

    classes = incident.settings.get("classes")
    settings = Settings(classes=classes if isinstance(classes, int) else None)
    try:
        return batch_evidence(laboratory.batch(), settings)
    except CannotRunError:
        return ()
