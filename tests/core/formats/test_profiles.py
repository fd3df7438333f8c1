# SPDX-License-Identifier: Apache-2.0
"""Profiles cast as the libraries they are named after."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from numcheck.errors import ArgumentError
from numcheck.formats import cast, get, names
from tests.core.formats.golden import same

TARGETS = [
    n for n in names() if hasattr(ml_dtypes, n) and get(n).kind in ("float", "scale")
]


def doubles(name: str) -> np.ndarray:
    """Returns float64 that rounding twice would move, and specials."""
    fmt = get(name)
    rng = np.random.default_rng(2)
    base = rng.standard_normal(20_000) * np.exp2(rng.integers(-20, 20, 20_000))
    ties = fmt.smallest_normal * (1 + fmt.eps * (np.arange(2000) % 64 + 0.5))
    near = np.concatenate([ties * (1 + 2.0**-40), ties * (1 - 2.0**-40)])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, fmt.overflow_threshold]
    return np.concatenate([base, near, -near, special, [1e-42]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", TARGETS)
def test_the_ml_dtypes_profile_is_the_cast_of_ml_dtypes(name: str, dtype: type) -> None:
    with np.errstate(all="ignore"):
        x = doubles(name).astype(dtype)
        expected = x.astype(getattr(ml_dtypes, name)).astype(np.float32)
    assert same(cast(x, name, "ml_dtypes").astype(np.float32), expected)


def test_the_cuda_profile_saturates_narrow_formats_alone() -> None:
    x = [1e6, -np.inf, np.nan]
    assert cast(x[:2], "e4m3", "cuda").tolist() == [448.0, -448.0]
    assert cast(x[:2], "e5m2", "cuda").tolist() == [57344.0, -57344.0]
    assert cast(x[:2], "fp16", "cuda").tolist() == [np.inf, -np.inf]
    assert cast(x, "fp4", "cuda").tolist() == [6.0, -6.0, 6.0]
    assert cast([1.1, 0.0], "e8m0", "cuda").tolist() == [2.0, 2.0**-127]


def test_ascend_saturation_hides_inf_and_nan() -> None:
    x = [1e6, np.inf, -np.inf, np.nan, 1.0]
    expected = [65504.0, 65504.0, -65504.0, 0.0, 1.0]
    assert cast(x, "fp16", "ascend_saturation").tolist() == expected
    largest = get("float32").max
    wide = cast([np.inf, np.nan], "float32", "ascend_saturation")
    assert wide.tolist() == [largest, 0.0]
    assert cast([1e6, np.inf], "fp16", "ascend").tolist() == [np.inf, np.inf]


def test_unknown_profiles_and_integers_are_refused() -> None:
    with pytest.raises(ArgumentError, match="did you mean 'torch'"):
        cast([1.0], "fp16", "torhc")
    with pytest.raises(ArgumentError, match="int8"):
        cast([1.0], "int8", "torch")
