# SPDX-License-Identifier: Apache-2.0
"""A step that the initial parameters survive: what let the training drift there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from numcheck.diagnose import diagnose
from numcheck.record import Event
from tests.core.diagnose.story import Story, ran, told

f32 = np.float32


def drifting(**fields: Any) -> Story:
    story = Story(step=7)
    w = story.source("parameter", f32([90.0]), "w")
    story.keep("loss", story.op("exp", np.exp, w))
    return story


def test_a_step_that_is_healthy_at_the_initial_parameters_drifted() -> None:
    learned = [5.0, 1.0, 0.5, 10.0, 100.0, 1e3, 1e4]
    losses = tuple(Event("loss", i, loss) for i, loss in enumerate(learned))
    incident = drifting().incident(ran("initial_parameters", "healthy"), history=losses)
    assert told(incident) == ("N104", "dynamics", "N751")
    stays = drifting().incident(ran("initial_parameters", "failed"))
    assert told(stays)[1] != "dynamics"


def test_a_momentum_above_one_is_named_before_the_drift() -> None:
    incident = drifting().incident(
        ran("initial_parameters", "healthy"), settings={"momentum": 1.9}
    )
    assert told(incident) == ("N104", "dynamics", "N753")


def test_weights_that_decay_alone_multiplies_are_named_before_the_drift() -> None:
    healthy = ran("initial_parameters", "healthy")
    settings = {"lr": 1.0, "weight_decay": 5.0, "decay_gain": 4.0}
    incident = drifting().incident(healthy, settings=settings)
    assert told(incident) == ("N104", "dynamics", "N763")
    keys = [e.key for e in diagnose(incident)[0].evidence]
    assert "decay_settings" in keys


@pytest.mark.parametrize("gain", [0.9, 1.0, 1.01])
def test_decay_that_shrinks_or_hardly_moves_weights_is_not_blamed(gain: float) -> None:
    healthy = ran("initial_parameters", "healthy")
    incident = drifting().incident(healthy, settings={"decay_gain": gain})
    assert told(incident) == ("N104", "dynamics", "N751")
