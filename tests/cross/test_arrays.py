# SPDX-License-Identifier: Apache-2.0
"""Arrays of both frameworks are read as they are, whatever their dtype and place."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import numcheck

DTYPES = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_is_summarised_in_its_own_dtype(dtype: str) -> None:
    values = [0.5, -2.0, 0.0]
    tensor = torch.tensor(values).to(getattr(torch, dtype))
    summary = numcheck.summarize(tensor)
    assert (summary.n, summary.zero, summary.amax) == (3, 1, 2.0)
    if dtype != "float64":  # JAX has it only when asked to
        array = jnp.array(values, getattr(jnp, dtype))
        assert numcheck.summarize(array) == summary


def test_a_parameter_that_requires_a_gradient_is_read() -> None:
    weight = torch.nn.Parameter(torch.full((2,), 16376.0, dtype=torch.bfloat16))
    assert numcheck.headroom(weight, "float16") == np.log2(65504 / 16384)
