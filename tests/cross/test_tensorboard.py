# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard reads back is what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util.tensor_util import make_ndarray
from torch.utils.tensorboard import SummaryWriter

from numcheck.report import log_trace, scalars
from tests.core.report import fixture

if TYPE_CHECKING:
    from pathlib import Path


def test_tensorboard_s_own_writer_takes_it_all(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        log_trace(fixture.trace(), writer)
    (file,) = tmp_path.iterdir()
    read = {
        (value.tag, event.step): make_ndarray(value.tensor)
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
    }
    for step, values in scalars(fixture.trace()).items():
        for tag, value in values.items():
            assert read[tag, step] == pytest.approx(value, rel=1e-6, nan_ok=True)
    silu = "numcheck/exponents/decoder.layers.35.mlp/aten.silu.default.3"
    left, right, count = read[silu, fixture.STEPS[-1]].T
    assert count.sum() == 16380
    assert (left.min(), right.max()) == (-5, 15)
