# SPDX-License-Identifier: Apache-2.0
"""Why it broke: data flow, rules and experiments over a recorded step."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from numcheck.callable_package import CallablePackage

if TYPE_CHECKING:
    from numcheck.diagnose.diagnosis import diagnose
    from numcheck.diagnose.dynamics import sampled, tightest
    from numcheck.diagnose.finding import Finding
    from numcheck.diagnose.incident import Experiment, Incident
    from numcheck.diagnose.investigation import investigate
    from numcheck.diagnose.laboratory import CannotRunError, Laboratory, Outcome

sys.modules[__name__].__class__ = CallablePackage

_HOME = {
    "CannotRunError": "laboratory",
    "Experiment": "incident",
    "Finding": "finding",
    "Incident": "incident",
    "Laboratory": "laboratory",
    "Outcome": "laboratory",
    "diagnose": "diagnosis",
    "investigate": "investigation",
    "sampled": "dynamics",
    "tightest": "dynamics",
}

__all__ = [
    "CannotRunError",
    "Experiment",
    "Finding",
    "Incident",
    "Laboratory",
    "Outcome",
    "diagnose",
    "investigate",
    "sampled",
    "tightest",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _HOME:
        msg = f"module 'numcheck.diagnose' has no attribute {name!r}"
        raise AttributeError(msg)
    home = importlib.import_module(f"numcheck.diagnose.{_HOME[name]}")
    value = getattr(home, name)
    globals()[name] = value
    return value
