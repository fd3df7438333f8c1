# SPDX-License-Identifier: Apache-2.0
"""Arrays that are easy to misread are read right or refused by name."""

from __future__ import annotations

import math
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats import cast, encode, matmul, quantize
from numcheck.measure import compare, fit, margins, summarize, ulp_distance

READERS = {
    "quantize": lambda x: quantize(x, "fp16"),
    "blocks": lambda x: quantize(x, "mxfp8"),
    "encode": lambda x: encode(x, "fp16"),
    "cast": lambda x: cast(x, "fp16", "torch"),
    "summarize": summarize,
    "margins": lambda x: margins(x, "fp16"),
    "compare": lambda x: compare(x, x),
    "fit": fit,
    "ulp": lambda x: ulp_distance(x, x, "fp16"),
}
SIGNALLING = {
    "float32": np.array([0x7F80_0001, 0xFFA0_0000], np.uint32).view(np.float32),
    "float16": np.array([0x7C01, 0xFD00], np.uint16).view(np.float16),
    "bfloat16": np.array([0x7F81, 0xFFA0], np.uint16).view(ml_dtypes.bfloat16),
    "float8_e5m2": np.array([0x7D, 0xFD], np.uint8).view(ml_dtypes.float8_e5m2),
}


def nearest(number: int, precision: int) -> int:
    """Returns an integer rounded to so many bits, ties to even."""
    step = 1 << max(abs(number).bit_length() - precision, 0)
    whole, rest = divmod(abs(number), step)
    whole += 2 * rest > step or (2 * rest == step and whole % 2 == 1)
    return int(math.copysign(1, number)) * whole * step


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "compressed"),
        (np.ones(2, complex), "abs"),
        (np.array([1, None]), "astype"),
    ],
    ids=["masked", "complex", "objects"],
)
def test_what_would_be_misread_is_refused(read: Any, wrong: Any, advice: str) -> None:
    with pytest.raises(ArgumentTypeError, match=advice):
        read(wrong)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="is a float64 here")
def test_a_long_double_is_not_rounded_twice_but_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="float64"):
        quantize(np.ones(2, np.longdouble), "fp16")


def test_a_mask_that_hides_nothing_does_not_matter() -> None:
    assert summarize(np.ma.masked_array([1.0, 2.0], [0, 0])).n == 2


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("x", SIGNALLING.values(), ids=SIGNALLING)
def test_a_signalling_nan_is_read_without_a_warning(read: Any, x: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(x)
        assert summarize(x).nan == 2


@pytest.mark.parametrize(("name", "precision"), [("fp32", 24), ("bf16", 8)])
def test_long_integers_are_rounded_once(name: str, precision: int) -> None:
    ties = [(1 << 62) + (1 << 62 - precision) + low for low in (-1, 0, 1, 1 << 20)]
    numbers = [*ties, *(-t for t in ties), 2**53 + 1, 2**63 - 1, -(2**63)]
    expected = [float(nearest(number, precision)) for number in numbers]
    assert quantize(np.array(numbers, np.int64), name).tolist() == expected
    positive = [number for number in numbers if number > 0] + [2**64 - 1]
    expected = [float(nearest(number, precision)) for number in positive]
    assert quantize(np.array(positive, np.uint64), name).tolist() == expected


def test_long_integers_directed_rounding_sees_their_last_bit() -> None:
    x = np.array([2**60 + 1, -(2**60) - 1])
    assert quantize(x, "fp32", rounding="up").tolist() == [2**60 + 2**37, -(2**60)]
    assert quantize(x, "fp32", rounding="down").tolist() == [2**60, -(2**60) - 2**37]


def test_integers_are_their_own_codes_whatever_their_size() -> None:
    numbers = [2**63 - 1, -(2**63), 2**53 + 1]
    assert encode(np.array(numbers), "int64").tolist() == numbers
    assert encode(np.array([2**64 - 1], np.uint64), "uint64").tolist() == [2**64 - 1]
    assert encode(np.array([300, -300]), "int8").tolist() == [127, -128]


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4", "hif4"])
def test_an_array_without_elements_has_blocks_along_every_axis(name: str) -> None:
    x = np.ones((2, 0, 3), np.float32)
    assert all(quantize(x, name, axis=axis).shape == x.shape for axis in range(3))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"block_size": True}, "block_size"),
        ({"block_size": (1, 2, 3)}, "block_size"),
        ({"block_size": (1, "2")}, "block_size"),
        ({"block_size": 2, "axis": None}, "axis"),
        ({"block_size": 2, "axis": 0.5}, "axis"),
        ({"rounding": "stochastic", "seed": -1}, "seed"),
        ({"rounding": "stochastic", "seed": 0.5}, "seed"),
        ({"out": [0.0]}, "out"),
    ],
    ids=str,
)
def test_an_option_of_the_wrong_kind_is_named(options: Any, named: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=named):
        quantize(np.ones((2, 2), np.float32), "e4m3", **options)


def test_a_number_of_numpy_counts_as_a_block_size() -> None:
    x = np.arange(8.0, dtype=np.float32)
    by_two = quantize(x, "e4m3", block_size=2)
    assert quantize(x, "e4m3", block_size=np.int64(2)).tolist() == by_two.tolist()


def test_an_accumulator_may_be_a_dtype() -> None:
    ones = np.ones((1, 4096))
    stuck = matmul(ones, ones.T, accumulator=ml_dtypes.bfloat16)
    assert stuck == matmul(ones, ones.T, accumulator="bf16") == 256
    with pytest.raises(ValueError, match="aligned0"):
        matmul(ones, ones.T, accumulator="aligned0")


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 0, 2), (2, 1, 0)], ids=str)
def test_axes_in_any_order_give_the_same_numbers_at_the_same_places(
    order: tuple[int, int, int],
) -> None:
    plain = np.random.default_rng(0).standard_normal((5, 6, 7)).astype(np.float32)
    x = np.ascontiguousarray(plain.transpose(order)).transpose(np.argsort(order))
    assert (x == plain).all()
    for name in ("fp16", "hif8", "int8", "mxfp8"):
        assert (quantize(x, name) == quantize(plain, name)).all()
        assert (quantize(x[::-1, ::2], name) == quantize(plain[::-1, ::2], name)).all()
    out = np.empty_like(plain)
    assert (quantize(x, "fp16", out=out) == quantize(plain, "fp16")).all()
    same = {"rounding": "stochastic", "seed": 1}
    assert (quantize(x, "fp4", **same) == quantize(plain, "fp4", **same)).all()
