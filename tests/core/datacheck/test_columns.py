# SPDX-License-Identifier: Apache-2.0
"""Statistics of columns against NumPy's own, however the rows are divided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from numcheck.datacheck.columns import NO_ROW, measure
from numcheck.datacheck.layout import layout_of
from numcheck.datacheck.sample import centre_of, sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.datacheck.columns import Columns

VALUES = st.one_of(
    st.floats(width=32), st.sampled_from([0.0, -1.0, -999.0, np.inf, np.nan, 3.0])
)
TABLES = arrays.arrays(
    np.float32,
    st.tuples(st.integers(2, 30), st.integers(1, 4)),
    elements=VALUES,
)
EXACT = ("n", "nan", "inf", "bad_row", "low", "high", "low_row", "high_row", "amin")


def whole(x: NDArray[Any]) -> Columns:
    return measure(x, layout_of(x.shape))


@given(TABLES, st.data())
def test_pieces_merge_to_the_statistics_of_the_whole(
    x: NDArray[Any], data: st.DataObject
) -> None:
    layout = layout_of(x.shape)
    cut = data.draw(st.integers(1, len(x) - 1))
    first, second = measure(x[:cut], layout), measure(x[cut:], layout, cut)
    expected = whole(x)
    for merged in (first.merge(second), second.merge(first)):
        for name in (*EXACT, "is_whole", "has_small_negative"):
            np.testing.assert_array_equal(
                getattr(merged, name), getattr(expected, name), err_msg=name
            )
        np.testing.assert_array_equal(merged.sample.keys, expected.sample.keys)
        np.testing.assert_array_equal(merged.sample.values, expected.sample.values)


@given(TABLES)
def test_counts_and_extremes_are_numpys(x: NDArray[Any]) -> None:
    seen = whole(x)
    np.testing.assert_array_equal(seen.nan, np.isnan(x).sum(axis=0))
    np.testing.assert_array_equal(seen.inf, np.isinf(x).sum(axis=0))
    for j, column in enumerate(x.T):
        finite = column[np.isfinite(column)].astype(float)
        assert seen.finite[j] == len(finite)
        if not len(finite):
            assert seen.amax[j] == 0
            continue
        assert (seen.low[j], seen.high[j]) == (finite.min(), finite.max())
        assert column[seen.low_row[j]] == finite.min()
        assert column[seen.high_row[j]] == finite.max()
        assert seen.is_whole[j] == (finite == np.floor(finite)).all()
        bad = np.flatnonzero(~np.isfinite(column))
        assert seen.bad_row[j] == (bad[0] if len(bad) else NO_ROW)


def test_a_sentinel_is_counted_wherever_it_is_an_extreme() -> None:
    x = np.array([[1.0, 5.0], [-999.0, 6.0], [-999.0, 1e30]], np.float32)
    counts = whole(x).sentinels
    assert {v: c.tolist() for v, c in counts.items()} == {-999.0: [2, 0], 1e30: [0, 1]}


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.int16, ml_dtypes.bfloat16])
def test_any_dtype_is_measured(dtype: Any) -> None:
    x = np.array([0, 1, 1]).astype(dtype)
    assert whole(x).high.tolist() == [1.0]


def test_the_row_is_the_sample_however_many_elements_it_has() -> None:
    x = np.zeros((4, 5, 3))
    x[2, 4, 1] = np.nan
    assert whole(x).bad_row.tolist() == [NO_ROW, 2, NO_ROW]


def test_channels_of_images_are_columns() -> None:
    x = np.zeros((2, 3, 8, 8))
    x[1, 2] = 7
    seen = whole(x)
    assert seen.high.tolist() == [0, 0, 7]
    assert seen.high_row.tolist()[2] == 1


def test_a_long_stream_keeps_no_more_than_a_short_one() -> None:
    layout = layout_of((1, 2))
    rows = np.random.default_rng(0).normal(size=(20_000, 2))
    kept = sample(layout.matrix(rows), 0)
    assert len(kept.keys) == 4096
    # A fair sample of 4096 has its median within five standard errors (1.25 / 64).
    assert np.abs(np.median(kept.values, axis=0)).max() < 0.1


@given(TABLES)
def test_the_median_is_numpys_without_what_is_not_finite(x: NDArray[Any]) -> None:
    found = centre_of(x.astype(float))
    for j, column in enumerate(x.T.astype(float)):
        finite = column[np.isfinite(column)]
        expected = np.median(finite) if len(finite) else np.nan
        np.testing.assert_allclose(found.median[j], expected, rtol=1e-12)
        assert found.scale[j] > 0 or len(finite) == 0
