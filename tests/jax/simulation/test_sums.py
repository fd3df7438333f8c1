# SPDX-License-Identifier: Apache-2.0
"""Convolutions and reductions whose running sums are narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import numcheck
import numcheck_jax
from numcheck.simulation.loading import parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY = jax.random.key(0)
WIDE = parse("families = ['conv']\naccumulator = 'float32'\nchunk = 4096", "wide")
FP16 = parse("[[rule]]\nfamilies = ['sum']\naccumulator = 'float16'", "fp16")


def drawn(*shape: int) -> jax.Array:
    return jax.random.normal(jax.random.fold_in(KEY, len(shape)), shape)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("stride", "padding", "dilations"),
    [(1, 0, (1, 1)), (2, 1, (1, 2)), (1, -1, (2, 1)), (3, 2, (2, 2))],
    ids=str,
)
@pytest.mark.parametrize("layout", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")])
def test_taken_apart_a_convolution_and_its_gradients_are_jax_s(
    layout: Any, *, groups: int, stride: int, padding: int, dilations: tuple[int, int]
) -> None:
    shapes = {"NCHW": (2, 4, 9, 8), "NHWC": (2, 9, 8, 4)}
    kernels = {"OIHW": (6, 4 // groups, 3, 2), "HWIO": (3, 2, 4 // groups, 6)}
    x, w = drawn(*shapes[layout[0]]), drawn(*kernels[layout[1]])

    def convolve(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            [(padding, padding + 1)] * 2,
            lhs_dilation=(dilations[0],) * 2,
            rhs_dilation=(dilations[1],) * 2,
            dimension_numbers=layout,
            feature_group_count=groups,
        )

    def with_gradients(f: Any) -> list[jax.Array]:
        out, back = jax.vjp(f, x, w)
        return [out, *back(jnp.cos(out))]

    narrow = numcheck_jax.simulate(convolve, WIDE)
    for found, known in zip(
        with_gradients(narrow), with_gradients(convolve), strict=True
    ):
        assert np.allclose(found, known, rtol=1e-4, atol=1e-4)


def patches(x: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """Returns (place, channel and offset) of every square patch of one image."""
    _, height, width = x.shape
    return np.stack(
        [
            x[:, i : i + size, j : j + size].ravel()
            for i in range(height - size + 1)
            for j in range(width - size + 1)
        ]
    )


@pytest.mark.parametrize("fmt", ["fp16", "bf16"])
def test_narrow_sums_of_convolutions_are_those_of_numcheck_matmul(fmt: str) -> None:
    x, w = drawn(1, 8, 6, 6), drawn(5, 8, 3, 3) * 0.9
    convolve = numcheck_jax.simulate(
        lambda x, w: lax.conv(x, w, (1, 1), "VALID"), f"{fmt}-accumulate"
    )
    seen, weights = patches(np.asarray(x)[0], 3), np.asarray(w).reshape(5, -1)
    expected = numcheck.matmul(seen, weights.T, fmt, accumulator=fmt, chunk=16)
    found = np.asarray(convolve(x, w))[0].reshape(5, -1)
    assert np.array_equal(found, expected.T.astype(np.float32))


def in_pairs(values: NDArray[np.float16]) -> np.float16:
    """Returns a sum whose partial sums are all float16 numbers."""
    while len(values) > 1:
        values = values[0::2] + values[1::2]
    return np.float16(values[0])


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.float32])
def test_reductions_are_added_up_in_the_accumulator_s_format(dtype: Any) -> None:
    x = drawn(3, 64).astype(jnp.float16)
    rows = np.array([in_pairs(row) for row in np.asarray(x)])
    add = numcheck_jax.simulate(
        lambda x: lax.reduce(x, np.zeros((), x.dtype), lax.add, (1,)), FP16
    )
    total = np.asarray(add(x.astype(dtype)))
    assert np.array_equal(total, rows.astype(total.dtype))


def test_a_mean_overflows_where_its_sum_does() -> None:
    x = jnp.full((64,), 3000.0)
    assert numcheck_jax.simulate(jnp.mean, FP16)(x) == jnp.inf
    assert jnp.mean(x) == 3000.0
