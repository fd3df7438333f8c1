# SPDX-License-Identifier: Apache-2.0
"""From a failing step and a laboratory that holds it to findings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from numcheck.diagnose.diagnosis import diagnose
from numcheck.diagnose.experiments import run_experiments

if TYPE_CHECKING:
    from numcheck.diagnose.experiments import Progress
    from numcheck.diagnose.finding import Finding
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
    return Investigation(incident, diagnose(incident))
