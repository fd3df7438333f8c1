# SPDX-License-Identifier: Apache-2.0
"""Every attribute of every format is the one of the tables others keep."""

from __future__ import annotations

import math
import pickle

import ml_dtypes
import numpy as np
import pytest

from numcheck.errors import NumcheckError, UnknownFormatError
from numcheck.formats import BlockFormat, Format, finfo, get, lookup, names
from numcheck.formats import block_names as named_blocks
from tests.core.formats.golden import LIMITS

SCALAR, BLOCK = LIMITS["scalar"], LIMITS["block"]
# Where the table leaves a number out, the format still has to answer something: no
# float64 reaches float64's threshold, and E8M0 has nothing below its smallest number.
LEFT_OUT = {"overflow_threshold": math.inf, "smallest_subnormal": 2.0**-127}
ML_DTYPES = [n for n in names() if hasattr(ml_dtypes, n) and "int" not in n]


@pytest.mark.parametrize("name", SCALAR)
def test_scalar_attributes_are_those_of_the_table(name: str) -> None:
    fmt = get(name)
    for attribute, expected in SCALAR[name].items():
        if attribute == "other_names":
            continue
        actual = getattr(fmt, attribute)
        if expected is None:
            assert attribute == "finite_values" or actual == LEFT_OUT[attribute]
        elif attribute.startswith("dynamic_range"):
            assert actual == pytest.approx(expected, abs=1e-3)
        else:
            assert actual == expected, attribute


@pytest.mark.parametrize("name", BLOCK)
def test_block_attributes_are_those_of_the_table(name: str) -> None:
    fmt = lookup(name)
    for attribute, expected in BLOCK[name].items():
        if attribute == "element_min":
            continue  # the one value that MXINT8 elements may have and do not
        actual = getattr(fmt, attribute)
        actual = list(actual) if isinstance(actual, tuple) else actual
        actual = actual.name if isinstance(actual, Format) else actual
        rounded = isinstance(expected, float)
        assert actual == (pytest.approx(expected, rel=1e-4) if rounded else expected)


@pytest.mark.parametrize("name", SCALAR)
def test_every_name_in_use_finds_the_format(name: str) -> None:
    for other in SCALAR[name].get("other_names", ()):
        assert get(other) is get(name), other


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_limits_are_those_of_numpy(dtype: type) -> None:
    ours, theirs = finfo(dtype), np.finfo(dtype)
    for name in ("bits", "eps", "max", "min", "smallest_normal", "smallest_subnormal"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.emin == theirs.minexp
    assert ours.mantissa_bits == theirs.nmant


@pytest.mark.parametrize("name", ML_DTYPES)
def test_limits_are_those_of_ml_dtypes(name: str) -> None:
    ours, theirs = finfo(name), ml_dtypes.finfo(getattr(ml_dtypes, name))
    assert ours.bits == theirs.bits
    known = ["eps", "max", "smallest_normal"]
    if ours.kind == "float":
        known += ["min", "smallest_subnormal"]
    for attribute in known:
        assert getattr(ours, attribute) == float(getattr(theirs, attribute)), attribute


@pytest.mark.parametrize("name", [n for n in names() if get(n).kind == "integer"])
def test_integer_limits_are_those_of_ml_dtypes_or_numpy(name: str) -> None:
    theirs = ml_dtypes.iinfo(getattr(ml_dtypes, name, None) or np.dtype(name))
    assert (get(name).min, get(name).max) == (theirs.min, theirs.max)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("torch.float16", "float16"),
        ("jax.numpy.bfloat16", "bfloat16"),
        ("FP8-E4M3", "float8_e4m3fn"),
        ("float4_e2m1fn_x2", "float4_e2m1fn"),
        ("F8_E5M2", "float8_e5m2"),
        ("torch.quint8", "uint8"),
        ("<class 'jax.numpy.bfloat16'>", "bfloat16"),
        ("<dtype: 'half'>", "float16"),
        ("f6E3M2FN", "float6_e3m2fn"),
        ("FLOAT8E4M3FNUZ", "float8_e4m3fnuz"),
        ("s8", "int8"),
        ("pred", "bool"),
        ("DT_BF16", "bfloat16"),
        ("DT_HIFLOAT8", "hifloat8"),
        ("mindspore.float16", "float16"),
        ("__nv_fp8_e4m3", "float8_e4m3fn"),
        ("CUDA_R_16BF", "bfloat16"),
        ("DType.kFloat8E5M2", "float8_e5m2"),
        ("tl.float8e4nv", "float8_e4m3fn"),
        ("half_t", "float16"),
        (float, "float64"),
        (np.float32, "float32"),
        (np.dtype(">f2"), "float16"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype(ml_dtypes.float8_e4m3fn), "float8_e4m3fn"),
        (np.zeros(1, np.float16), "float16"),
        (np.dtype(np.int64), "int64"),
        (np.dtype(bool), "bool"),
    ],
    ids=str,
)
def test_names_and_dtypes_of_every_framework_are_understood(
    given: object, name: str
) -> None:
    assert get(given).name == name


def test_made_up_names_describe_the_format() -> None:
    half, fixed = get("e5m10"), get("q8.8")
    assert half.max == np.finfo(np.float16).max
    assert half.smallest_subnormal == np.finfo(np.float16).smallest_subnormal
    assert (fixed.bits, fixed.max, fixed.min) == (16, 128 - 2**-8, -128.0)
    assert get("uq8.8").max == 256 - 2**-8
    assert get("int12").min == -2048


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("flot16", "float16"), ("bflota16", "bfloat16"), ("mxfp44", "mxfp4")],
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(UnknownFormatError, match=f"did you mean '{near}'"):
        get(wrong)


@pytest.mark.parametrize(
    ("vague", "meant"),
    [
        ("fp8", "'float8_e4m3fn', 'float8_e5m2', "),
        ("float6", "'float6_e2m3fn' or 'float6_e3m2fn'"),
        ("bfloat", "'bfloat16'"),
        ("msfp", "'msfp11', 'msfp12', 'msfp13' or 'msfp14'"),
    ],
)
def test_a_name_without_its_split_of_bits_is_answered_with_all_that_fit(
    vague: str, meant: str
) -> None:
    with pytest.raises(UnknownFormatError) as caught:
        get(vague)
    assert f"did you mean {meant}" in str(caught.value)


@pytest.mark.parametrize("wrong", ["e1m2x", "e12m3", "e5m53", "q0.0", "int65", "", "?"])
def test_names_without_meaning_are_refused(wrong: str) -> None:
    with pytest.raises(UnknownFormatError) as caught:
        get(wrong)
    assert isinstance(caught.value, NumcheckError)
    assert isinstance(caught.value, ValueError)


def test_a_block_format_is_not_taken_for_a_scalar_one() -> None:
    with pytest.raises(UnknownFormatError, match="block format"):
        get("mxfp4")
    assert isinstance(lookup("mxfp4"), BlockFormat)


@pytest.mark.parametrize("name", [*names(), *named_blocks()])
def test_formats_are_values_that_survive_pickling(name: str) -> None:
    fmt = lookup(name)
    assert pickle.loads(pickle.dumps(fmt)) == fmt or fmt.name in _HOLDING_NAN
    assert lookup(fmt) is fmt


# A table that holds NaN is not equal to a copy of itself, as NaN is not.
_HOLDING_NAN = ("hifloat8", "hif4")


def test_the_overflow_threshold_itself_is_decided_as_rounding_does() -> None:
    assert not get("fp16").overflows(65519.99)
    assert get("fp16").overflows(65520.0)
    assert not get("e4m3").overflows(464.0)
    assert get("e4m3").overflows(math.nextafter(464.0, 500.0))
    assert not get("hif8").overflows(40959.0)
    assert get("hif8").overflows(40960.0)
