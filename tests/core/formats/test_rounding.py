# SPDX-License-Identifier: Apache-2.0
"""quantize agrees with golden vectors, fractions, ml_dtypes, numpy and gfloat."""

from __future__ import annotations

import gfloat
import ml_dtypes
import numpy as np
import pytest

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats import decode, get, names, quantize
from numcheck.formats._modes import Modes
from numcheck.formats._rounders import round_once, rounder
from tests.core.formats import rational
from tests.core.formats.golden import same, vectors
from tests.core.formats.test_codes import IN_GFLOAT

MODES = ["nearest_even", "nearest_away", "toward_zero", "up", "down", "to_odd"]
FLOATS = [n for n in names() if get(n).kind == "float" and get(n).bits <= 16]
SCALAR_KEYS = [k for k in vectors("rounding") if not k.endswith("/x")]
# Formats whose ml_dtypes cast from float32 is right for every finite number.
CAST_BY_ML_DTYPES = [
    n for n in names() if hasattr(ml_dtypes, n) and get(n).kind in ("float", "scale")
]
# float64 results need float64; everything else can be reached from both.
ROUNDED_IN = [
    (name, dtype)
    for name in names()
    for dtype in (np.float32, np.float64)
    if get(name).kind != "integer" and (name, dtype) != ("float64", np.float32)
]


def edges(name: str) -> np.ndarray:
    """Returns values, midpoints and their float64 neighbours, in and out of range."""
    fmt = get(name)
    sizes = np.array([float(v) for v in rational.magnitudes(fmt)])
    if sizes.size > 600:
        chosen = np.random.default_rng(0).choice(sizes, 400)
        sizes = np.sort(np.concatenate([sizes[:100], chosen, sizes[-100:]]))
    top = fmt.overflow_threshold
    points = np.concatenate(
        [
            sizes,
            (sizes[1:] + sizes[:-1]) / 2,
            [top, 2 * top, 1e4 * top, 1e-30 * sizes[1]],
        ]
    )
    points = np.concatenate(
        [points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)]
    )
    return np.concatenate([points, -points, [np.inf, -np.inf, np.nan]])


def wide_random(count: int) -> np.ndarray:
    """Returns float32 of all magnitudes, with specials and subnormals."""
    bits = np.random.default_rng(7).integers(0, 1 << 32, count, np.uint32)
    return bits.view(np.float32)


@pytest.mark.parametrize("key", SCALAR_KEYS)
def test_golden_vectors_match_bit_for_bit(key: str) -> None:
    golden = vectors("rounding")
    name, rounding, overflow, subnormals = key.split("/")
    x = golden[f"{name}/x"]
    choices = {"rounding": rounding, "overflow": overflow, "subnormals": subnormals}
    assert same(quantize(x, name, **choices), golden[key])
    from_double = quantize(x.astype(np.float64), name, **choices)
    assert same(from_double, golden[key].astype(np.float64))


@pytest.mark.parametrize("overflow", ["ieee", "saturate"])
def test_hifloat8_golden_vectors_match_bit_for_bit(overflow: str) -> None:
    golden = vectors("special")
    expected = golden[f"hifloat8/nearest_away/{overflow}"]
    assert same(quantize(golden["hifloat8/x"], "hif8", overflow=overflow), expected)


@pytest.mark.parametrize("rounding", ["nearest_even", "nearest_away", "up", "down"])
def test_e8m0_golden_vectors_match_bit_for_bit(rounding: str) -> None:
    golden = vectors("special")
    exponents = golden[f"e8m0/{rounding}"].astype(int)
    powers = np.ldexp(1.0, np.minimum(exponents, 127))
    expected = np.where(exponents > 127, np.nan, powers).astype(np.float32)
    assert same(quantize(golden["e8m0/x"], "e8m0", rounding=rounding), expected)


@pytest.mark.parametrize("overflow", ["ieee", "saturate"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FLOATS)
def test_rounding_is_what_fractions_give(name: str, mode: str, overflow: str) -> None:
    fmt, x = get(name), edges(name)
    step = max(1, x.size // 700)
    x = np.concatenate([x[::step], x[-40:]])
    expected = np.array([rational.rounded(float(v), fmt, mode, overflow) for v in x])
    assert same(quantize(x, fmt, rounding=mode, overflow=overflow), expected)


@pytest.mark.parametrize("name", CAST_BY_ML_DTYPES)
def test_rounding_is_the_cast_of_ml_dtypes(name: str) -> None:
    x = wide_random(200_000)
    with np.errstate(all="ignore"):
        expected = x.astype(getattr(ml_dtypes, name)).astype(np.float32)
    known = np.ones(x.size, bool) if get(name).has_nan else ~np.isnan(x)
    assert same(quantize(x, name)[known], expected[known])


def test_rounding_to_float16_is_the_cast_of_numpy() -> None:
    x = wide_random(300_000)
    doubles = np.random.default_rng(1).standard_normal(100_000) * 2.0**-14
    with np.errstate(all="ignore"):
        assert same(quantize(x, "fp16"), x.astype(np.float16).astype(np.float32))
        expected = doubles.astype(np.float16).astype(np.float64)
    assert same(quantize(doubles, "fp16"), expected)


@pytest.mark.parametrize("mode", ["nearest_even", "nearest_away", "toward_zero", "up"])
@pytest.mark.parametrize("name", [n for n in IN_GFLOAT if n != "float8_e8m0fnu"])
def test_rounding_is_that_of_gfloat(name: str, mode: str) -> None:
    theirs = {
        "nearest_even": gfloat.RoundMode.TiesToEven,
        "nearest_away": gfloat.RoundMode.TiesToAway,
        "toward_zero": gfloat.RoundMode.TowardZero,
        "up": gfloat.RoundMode.TowardPositive,
    }
    x = edges(name)
    x = x[np.isfinite(x)]
    expected = gfloat.round_ndarray(IN_GFLOAT[name], x, theirs[mode], sat=True)
    assert same(quantize(x, name, rounding=mode, overflow="saturate"), expected)


@pytest.mark.parametrize("overflow", ["ieee", "saturate", "satfinite"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "dtype"), ROUNDED_IN, ids=str)
def test_fast_methods_give_what_the_exact_one_gives(
    name: str, dtype: type, mode: str, overflow: str
) -> None:
    fmt, modes = get(name), Modes(mode, overflow)
    x = np.concatenate([wide_random(10_000), np.zeros(9, np.float32)])
    scale = np.float32(min(fmt.max, 1e30))
    near = np.random.default_rng(3).standard_normal(10_000).astype(np.float32) * scale
    x = np.concatenate([x, -x[-9:], near, near * np.float32(1e-5)])
    if fmt.bits <= 16:
        values = decode(np.arange(0, 1 << fmt.bits, 1 + (1 << fmt.bits) // 5000), fmt)
        with np.errstate(over="ignore"):
            x = np.concatenate([x, values, values * np.float32(1.25)])
    with np.errstate(invalid="ignore"):
        x = x.astype(dtype)
    out = np.empty_like(x)
    convert = rounder(x.dtype, fmt, modes, size=1 << 20)
    for start in range(0, x.size, 4097):
        convert(x[start : start + 4097], out[start : start + 4097])
    assert same(out, round_once(x, fmt, modes))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn"])
def test_a_large_narrow_array_is_rounded_like_its_wide_copy(name: str) -> None:
    dtype = getattr(ml_dtypes, name, np.float16)
    bits = np.random.default_rng(5).integers(
        0, 1 << get(name).bits, 140_000, np.uint16 if get(name).bits == 16 else np.uint8
    )
    x = bits.view(dtype)
    for target in ("e5m2", "e4m3", "bf16", "fp16"):
        wide = quantize(x.astype(np.float32), target, rounding="down")
        assert same(quantize(x, target, rounding="down"), wide)


def test_float64_is_never_rounded_twice() -> None:
    x = 1 + 2.0**-8 + 2.0**-40
    assert quantize(x, "bf16").item() == 1 + 2.0**-7
    assert quantize(np.float32(x), "bf16").item() == 1.0
    assert quantize(1 + 2.0**-11 + 2.0**-40, "fp16").item() == 1 + 2.0**-10


def test_satfinite_keeps_infinity_and_saturates_the_rest() -> None:
    x = np.array([np.inf, -np.inf, 1e9, -1e9])
    expected = [np.inf, -np.inf, 57344.0, -57344.0]
    assert quantize(x, "e5m2", overflow="satfinite").tolist() == expected
    assert np.isnan(quantize(x[:2], "e4m3", overflow="satfinite")).all()
    assert quantize(x, "fp4", overflow="satfinite").tolist() == [6.0, -6.0, 6.0, -6.0]


@pytest.mark.parametrize(
    ("dtype", "fmt", "expected"),
    [
        (np.float16, "bf16", np.float32),
        (ml_dtypes.bfloat16, "fp16", np.float32),
        (np.float32, "e4m3", np.float32),
        (np.float64, "e4m3", np.float64),
        (np.float32, "e11m10", np.float64),
        (np.int8, "fp4", np.float32),
        (np.int64, "fp16", np.float64),
        (bool, "fp16", np.float32),
    ],
    ids=str,
)
def test_the_result_dtype_can_hold_every_result(
    dtype: type, fmt: str, expected: type
) -> None:
    assert quantize(np.ones(3, dtype), fmt).dtype == expected


def test_a_result_beyond_float32_is_not_lost() -> None:
    x = np.array([np.finfo(np.float32).max])
    assert quantize(x, "e11m10").item() == 2.0**128


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (5,), (2, 3, 4)], ids=str)
def test_shapes_are_kept(shape: tuple[int, ...]) -> None:
    assert quantize(np.ones(shape), "fp16").shape == shape


@pytest.mark.parametrize(
    "step", [(slice(None, None, -2),), (slice(None), slice(1, 9, 3))]
)
def test_strided_and_transposed_arrays_are_read_in_their_own_order(
    step: tuple[slice, ...],
) -> None:
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    expected = quantize(np.ascontiguousarray(x.T[step]), "e4m3")
    assert same(quantize(x.T[step], "e4m3"), expected)


def test_other_byte_orders_are_read() -> None:
    x = np.array([0.3, -500.0])
    assert same(quantize(x.astype(">f8"), "fp16"), quantize(x, "fp16"))


def test_the_result_can_be_written_in_place() -> None:
    x = wide_random(100_000)
    expected = quantize(x, "fp16")
    result = quantize(x, "fp16", out=x)
    assert result is x
    assert same(x, expected)


def test_unusable_arguments_are_named() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(ArgumentError, match="did you mean 'nearest_even'"):
        quantize(x, "fp16", rounding="nearest_evn")
    with pytest.raises(ArgumentError, match="overflow must be one of"):
        quantize(x, "fp16", overflow="clip")
    with pytest.raises(ArgumentError, match="integer"):
        quantize(x, "fp16", overflow="wrap")
    with pytest.raises(ArgumentError, match="out must be"):
        quantize(x, "fp16", out=np.empty(3, np.float64))
    with pytest.raises(ArgumentError, match="no shared scale"):
        quantize(x, "fp16", scale_rule="ceil")


@pytest.mark.parametrize(
    "wrong",
    [np.ones(2, complex), np.array([object()]), np.array(["1"]), "1.0"],
    ids=repr,
)
def test_what_holds_no_real_numbers_is_refused(wrong: object) -> None:
    with pytest.raises(ArgumentTypeError, match="must hold real numbers"):
        quantize(wrong, "fp16")
