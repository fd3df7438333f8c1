# SPDX-License-Identifier: Apache-2.0
"""The torch and jax profiles cast as torch and jax do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from numcheck.formats import cast, get
from tests.core.formats.golden import same
from tests.core.formats.test_profiles import doubles

FP8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
NAMES = ["float16", "bfloat16", *FP8, "float8_e8m0fnu"]
DTYPES = [np.float32, np.float64]


def inputs(name: str, dtype: type) -> np.ndarray:
    with np.errstate(all="ignore"):
        x = doubles(name).astype(dtype)
    if get(name).kind == "scale":
        # Below its smallest number jax gives 0 or NaN by whether it was float64.
        x = x[~(np.abs(x) < 2.0**-127) | (x == 0)]
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_the_torch_profile_is_the_cast_of_torch(name: str, dtype: type) -> None:
    x = inputs(name, dtype)
    expected = torch.from_numpy(x).to(getattr(torch, name)).to(torch.float64).numpy()
    assert same(cast(x, name, "torch").astype(np.float64), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*NAMES, "float4_e2m1fn"])
def test_the_jax_profile_is_the_cast_of_jax(name: str, dtype: type) -> None:
    x = inputs(name, dtype)
    with jax.enable_x64(True):
        convert = jax.jit(lambda v: v.astype(getattr(jnp, name)))
        expected = np.asarray(convert(jnp.asarray(x))).astype(np.float64)
    assert same(cast(x, name, "jax").astype(np.float64), expected)
