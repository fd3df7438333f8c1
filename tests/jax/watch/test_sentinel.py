# SPDX-License-Identifier: Apache-2.0
"""The cheap check sees every NaN and Inf and nothing else."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from numcheck_jax.sentinel import is_bad, is_watchable, launch, values

FORMATS = [
    "float16",
    "bfloat16",
    "float32",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e3m4",
    "float8_e8m0fnu",
]


def flagged(*leaves: Any) -> list[bool]:
    return is_bad(launch(leaves).read())


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_of_a_narrow_format_is_flagged_as_numpy_says(name: str) -> None:
    dtype = jnp.dtype(name)
    width = 8 * dtype.itemsize
    if width == 32:
        rng = np.random.default_rng(0)
        codes = rng.integers(0, 2**32, 300, dtype=np.uint32)
        codes[:4] = [0x7F7FFFFF, 0x7F800000, 0x7F800001, 0xFFC00000]
    else:
        stride = 1 if width == 8 else 97
        codes = np.arange(0, 2**width, stride).astype(f"uint{width}")
    numbers = codes.view(dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wanted = ~np.isfinite(numbers.astype(np.float64))
    got = flagged(*(jnp.asarray(number) for number in numbers))
    assert got == wanted.tolist()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e5m2"])
@pytest.mark.parametrize("size", [1, 2, 33, 4095, 4096, 4097, 2**16, 2**20])
def test_a_single_bad_element_is_seen_wherever_it_stands(name: str, size: int) -> None:
    dtype = jnp.dtype(name)
    clean = np.ones(size, dtype)
    assert flagged(jnp.asarray(clean)) == [False]
    for position in {0, size // 2, size - 1}:
        for bad in (np.nan, np.inf, -np.inf):
            x = clean.copy()
            x[position] = bad
            assert flagged(jnp.asarray(x)) == [True], (position, bad)


def test_float64_keeps_its_own_range() -> None:
    with jax.enable_x64(True):
        found = flagged(
            jnp.float64(1e300), jnp.float64("inf"), jnp.array([1.0, np.nan])
        )
    assert found == [False, True, True]


def test_host_values_are_judged_in_their_own_precision() -> None:
    leaves = [1e300, np.float64(1e300), np.array([1.0, np.nan]), complex(0, np.inf)]
    assert flagged(*leaves) == [False, False, True, True]


def test_complex_and_empty_arrays_are_judged() -> None:
    leaves = [jnp.array([1 + 1j]), jnp.array([1 + 1j * np.inf]), jnp.zeros((0, 3))]
    assert flagged(*leaves) == [False, True, False]


def test_finite_values_whose_squares_overflow_are_finite() -> None:
    leaves = [jnp.full(3, 1e30), jnp.float32(-3e38), jnp.array([1e30, np.inf])]
    table = launch(leaves).read()
    assert is_bad(table) == [False, False, True]
    assert np.isfinite(values(table)).tolist() == [True, True, False]


def test_scalars_keep_their_sign_and_arrays_give_their_norm() -> None:
    leaves = [
        jnp.bfloat16(-2.5),
        jnp.array([3.0, -4.0], jnp.float16),
        jnp.float32(-np.inf),
        -0.25,
        jnp.array([ml_dtypes.bfloat16(-7)]),
    ]
    assert values(launch(leaves).read()) == [-2.5, 5.0, -np.inf, -0.25, 7.0]


def test_leaves_on_different_devices_are_all_checked() -> None:
    first, second = jax.devices()[:2]
    x = jax.device_put(jnp.array([1.0, np.nan]), first)
    y = jax.device_put(jnp.ones(2), second)
    assert flagged(y, x, y) == [False, True, False]


@pytest.mark.parametrize(
    ("leaf", "wanted"),
    [
        (jnp.ones(2, jnp.int32), False),
        (np.ones(2, bool), False),
        (jax.random.key(0), False),
        ("text", False),
        (None, False),
        (1.0, True),
        (np.float16(1), True),
        (jnp.ones(2, jnp.complex64), True),
    ],
    ids=["int", "bool", "key", "text", "none", "number", "numpy", "complex"],
)
def test_only_what_can_hold_a_nan_is_watched(leaf: Any, wanted: bool) -> None:
    assert is_watchable(leaf) is wanted
