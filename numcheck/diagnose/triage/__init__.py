# SPDX-License-Identifier: Apache-2.0
"""The ten questions an engineer asks by hand, each answered by what was measured."""

from __future__ import annotations

from numcheck.diagnose.triage.answers import QUESTIONS, Answer, Known, Verdict
from numcheck.diagnose.triage.walk import triage

__all__ = ["QUESTIONS", "Answer", "Known", "Verdict", "triage"]
