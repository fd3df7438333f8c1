# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from numcheck.measure import summarize
from numcheck.record.foreign import read_steps
from numcheck.record.foreign.msprobe_tensor import summary_of
from numcheck.record.foreign.torch_file import load_tensor
from tests.core.foreign.dumps import SAMPLES, only, step

if TYPE_CHECKING:
    from pathlib import Path

TENSORS = SAMPLES / "values" / "step0" / "rank0" / "dump_tensor_data"


@given(
    arrays.arrays(
        np.float32,
        st.integers(1, 12),
        elements=st.sampled_from([0.0, -1.5, 2.0, 7.25, math.inf, -math.inf, math.nan]),
    )
)
def test_what_extremes_say_agrees_with_the_array(x: np.ndarray) -> None:
    known = summary_of(x.size, float(x.min()), float(x.max()))
    full = summarize(x)
    for field in ("n", "nan", "pos_inf", "neg_inf", "zero", "amax"):
        claimed = getattr(known, field)
        assert claimed is None or claimed == getattr(full, field), field
    assert known.has_nan == full.has_nan
    assert known.is_finite == full.is_finite
    assert known.has_inf in (None, full.has_inf)


def test_an_array_nobody_measured_claims_nothing() -> None:
    known = summary_of(3, None, None)
    assert (known.is_finite, known.has_nan, known.zero) == (None, None, None)


def test_an_empty_array_is_finite() -> None:
    assert summary_of(0, None, None).is_finite is True


def test_tensor_dumps_count_the_infinities_behind_a_nan() -> None:
    trace = step("values")
    held = trace.at(0).summaries[only(trace, "Tensor.__truediv__").index]
    hidden = np.maximum(
        load_tensor(TENSORS / "Functional.linear.0.forward.output.0.pt"), 0
    )
    with np.errstate(all="ignore"):
        expected = summarize(np.log(hidden) / hidden)
    assert expected.neg_inf
    assert (held.nan, held.neg_inf) == (expected.nan, expected.neg_inf)


def test_a_missing_tensor_file_leaves_the_statistics(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "values", tmp_path / "dump")
    shutil.rmtree(tmp_path / "dump/step0/rank0/dump_tensor_data")
    (trace,) = read_steps(tmp_path / "dump")
    held = trace.at(0).summaries[only(trace, "Torch.log").index]
    assert (held.has_neg_inf, held.neg_inf) == (True, None)
    assert any("cannot be read" in note for note in trace.meta["notes"])


def test_a_tensor_file_that_names_code_is_refused(tmp_path: Path) -> None:
    import pickle
    import zipfile

    from numcheck.errors import DumpError

    path = tmp_path / "evil.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("evil/data.pkl", pickle.dumps(shutil.rmtree))
    with pytest.raises(DumpError, match="shutil"):
        load_tensor(path)
