# SPDX-License-Identifier: Apache-2.0
"""Whatever operator goes wrong, and however it is run, it is named where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from tests.torch.faults.arithmetic_faults import ARITHMETIC
from tests.torch.faults.backward_faults import BACKWARD, OwnFunction
from tests.torch.faults.layer_faults import LAYERS
from tests.torch.faults.oracle import marked_line
from tests.torch.faults.training import BAD, PLACE, Way, told

if TYPE_CHECKING:
    from tests.torch.faults.fault import Fault

pytestmark = pytest.mark.filterwarnings("ignore")

FAULTS = ARITHMETIC | LAYERS | BACKWARD
WAYS = {
    "eager": Way(),
    "checkpointed": Way(reentrant=False),
    "re-entrant checkpoint": Way(reentrant=True),
    "bfloat16 autocast": Way(autocast=torch.bfloat16),
    "float16 with a scaler": Way(autocast=torch.float16, scaled=True),
}


def has_recurrent_layer(dtype: torch.dtype | None) -> bool:
    """Whether PyTorch can run one in this dtype: some processors have no kernel."""
    try:
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            torch.nn.LSTM(8, 8)(torch.zeros(1, 1, 8))
    except RuntimeError:
        return False
    return True


PAIRS = [
    pytest.param(name, way, id=f"{name}-{called}")
    for name in FAULTS
    for called, way in WAYS.items()
    if name != "RecurrentLayer" or has_recurrent_layer(way.autocast)
]


@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_the_operator_that_breaks_is_named_where_it_stands(name: str, way: Way) -> None:
    kind = FAULTS[name]
    errors, births = told(kind, way, experiments=False)
    if way == Way():
        assert kind.op in births[0].op
    found = errors[0]
    assert (found.site.op, found.phase) == births[0]
    assert found.site.scope.startswith(PLACE)
    assert found.site.source is not None
    assert found.site.source.line == line_of(kind)
    # The first step that a scaler skips is run unscaled: what stays is no search.
    assert found.step == BAD
    assert found.reproduced is True
    # What else went wrong by itself is no more than went wrong indeed.
    assert {(f.site.op, f.phase) for f in errors} <= set(births)


def line_of(kind: type[Fault]) -> int:
    if kind is OwnFunction:
        return marked_line(OwnFunction.Scaled.backward)
    return marked_line(kind.forward)
