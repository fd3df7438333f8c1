# SPDX-License-Identifier: Apache-2.0
"""The sixth of the ten questions, asked about trainings on the simulated device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.triage import Known, triage
from tests.torch.npu.device import chip
from tests.torch.npu.programs import Squares, train

if TYPE_CHECKING:
    from numcheck_torch.monitor import TorchMonitor


def verdict(monitor: TorchMonitor) -> str:
    incident = monitor.incidents[-1]
    known = Known(incident.trace, monitor.findings, incident.settings)
    return next(a.verdict for a in triage(known) if a.question == "device_flag")


def test_6_a_raised_flag_of_the_device_is_told() -> None:
    with chip(soc=104, saturates=True):
        assert verdict(train(Squares(), large=900.0)) == "yes"


def test_6_where_the_device_keeps_inf_there_is_no_flag_to_read() -> None:
    assert verdict(train(Squares(), large=900.0)) == "not_measured"


def test_6_a_clear_flag_is_told_as_clear() -> None:
    with chip(soc=104, saturates=True):
        assert verdict(train(Squares())) == "no"
