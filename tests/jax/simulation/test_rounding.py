# SPDX-License-Identifier: Apache-2.0
"""A array rounded on its device is what `quantize` and JAX's casts make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcheck import quantize
from numcheck.formats import block_names, names
from numcheck.simulation import Rounding
from numcheck_jax.simulation.rounding import round_sum, round_to

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALAR = [n for n in names() if Rounding(n).way not in ("numpy", "none")]
SHARED = [*block_names(), "e4m3/tensor", "e5m2/tensor", "e4m3/1x128", "e2m1/32"]
# XLA lets what it calls on the host take the smallest numbers for zero.
SCALED = [
    (name, scale)
    for name in SHARED
    for scale in (1.0, 1e30, 1e-38, 1e-42)
    if scale >= 1 or Rounding(name).way != "numpy"
]
# The lower halves next to every tie of every format up to 16 bits.
TAILS = (0, 1, 0x0FFF, 0x1000, 0x2000, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF)


def every_upper_half() -> NDArray[np.float32]:
    """Returns floats with every sign, exponent and leading seven bits."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    return np.concatenate([upper | tail for tail in TAILS]).view(np.float32)


def blocks(scale: float, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Returns numbers spread over 24 octaves, with a zero row, an Inf and a NaN."""
    rng = np.random.default_rng(0)
    spread = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 12, shape))
    with np.errstate(over="ignore", under="ignore"):
        x = (spread * scale).astype(np.float32)
    x[0] = 0
    if scale == 1:
        x[..., 1, 3], x[..., 2, 1] = np.inf, np.nan
    return x


def assert_same_bits(found: Any, expected: NDArray[Any]) -> None:
    """Checks every bit, those of zeros' signs too, but not those inside of NaN."""
    left, right = np.asarray(found), np.ascontiguousarray(expected)
    assert np.array_equal(np.isnan(left), np.isnan(right))
    known = ~np.isnan(left)
    assert np.array_equal(left[known].view(np.uint32), right[known].view(np.uint32))


@pytest.mark.parametrize(
    ("mode", "overflow"),
    [
        (None, "ieee"),
        (None, "saturate"),
        (None, "satfinite"),
        ("nearest_away", "ieee"),
        ("toward_zero", "ieee"),
    ],
)
@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_each_scalar_rounding_equals_quantize(
    name: str, mode: Any, overflow: Any
) -> None:
    rounding = Rounding(name, mode, overflow)
    x = every_upper_half()
    assert_same_bits(round_to(jnp.asarray(x), rounding), rounding.quantized(x))


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("shape", [(70, 200), (3, 64, 96)])
@pytest.mark.parametrize(("name", "scale"), SCALED)
def test_each_shared_scale_equals_quantize(
    name: str, scale: float, shape: tuple[int, ...], axis: int
) -> None:
    rounding, x = Rounding(name), blocks(scale, shape)
    with np.errstate(over="ignore"):
        expected = rounding.quantized(x, axis)
    assert_same_bits(round_to(jnp.asarray(x), rounding, axis), expected)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"]
)
def test_each_rounding_equals_the_cast_of_jax(dtype: str) -> None:
    x = jnp.asarray(every_upper_half())
    expected = jax.jit(lambda x: x.astype(dtype).astype(jnp.float32))(x)
    assert_same_bits(round_to(x, Rounding(dtype)), np.asarray(expected))


def test_an_axis_in_the_middle_is_rounded_like_the_last() -> None:
    x = jnp.asarray(blocks(1.0, (4, 40, 50)))
    last = round_to(jnp.moveaxis(x, 1, -1), Rounding("mxfp8"), -1)
    expected = np.asarray(jnp.moveaxis(last, -1, 1))
    assert_same_bits(round_to(x, Rounding("mxfp8"), 1), expected)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "e4m3"])
def test_sums_are_rounded_once_from_float64(name: str) -> None:
    x = np.random.default_rng(1).standard_normal(4096) * np.exp2(np.arange(4096) % 30)
    # Just beyond a tie in float64, which float32 cannot tell from the tie.
    x[:2] = 1 + 2.0**-9 + 2.0**-40, 1 + 2.0**-12 + 2.0**-40
    with jax.enable_x64(True):
        found = np.asarray(round_sum(jnp.asarray(x), Rounding(name)))
    assert np.array_equal(found, quantize(x, name), equal_nan=True)


def test_nothing_stays_nothing() -> None:
    assert round_to(jnp.zeros((0, 32)), Rounding("mxfp4")).shape == (0, 32)
