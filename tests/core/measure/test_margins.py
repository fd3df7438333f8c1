# SPDX-License-Identifier: Apache-2.0
"""Margins are the logarithms their definitions say, to the last edge case."""

from __future__ import annotations

import math

import numpy as np
import pytest

from numcheck.errors import ArgumentTypeError
from numcheck.formats import get, quantize
from numcheck.measure import Summary, headroom, margins, summarize


@pytest.mark.parametrize("name", ["float16", "bfloat16", "e4m3", "e5m2", "hif8"])
def test_margins_are_their_definitions(name: str) -> None:
    fmt = get(name)
    x = np.array([3.0, -0.02, 0.0, 1.0])
    m = margins(x, name)
    assert m.status == "ok"
    assert m.headroom == pytest.approx(math.log2(fmt.max / 3))
    assert m.overflow_margin == pytest.approx(math.log2(fmt.overflow_threshold / 3))
    assert m.underflow_margin == pytest.approx(math.log2(0.02 / fmt.smallest_normal))
    half = fmt.smallest_subnormal / 2
    assert m.flush_margin == pytest.approx(math.log2(0.02 / half))
    assert m.dynamic_range == pytest.approx(math.log2(150))


@pytest.mark.parametrize(
    "name", ["float16", "e4m3", "e5m2", "hif8", "fp4", "p3109_k8p3se"]
)
def test_overflows_and_flushes_say_what_rounding_does(name: str) -> None:
    fmt = get(name)
    threshold, lowest = fmt.overflow_threshold, fmt.underflow_threshold
    for amax in (threshold, np.nextafter(threshold, 0), np.nextafter(threshold, 1e9)):
        saturated = quantize(amax, name, overflow="saturate") == fmt.max
        left = (
            not np.isfinite(quantize(amax, name))
            if fmt.has_inf or fmt.has_nan
            else (amax >= threshold)
        )
        assert saturated
        assert margins(np.array([amax]), name).overflows == left
    for amin in (lowest, np.nextafter(lowest, 0), np.nextafter(lowest, 1)):
        assert margins(np.array([amin]), name).flushes == (quantize(amin, name) == 0)


def test_the_threshold_and_its_neighbour_print_alike_but_differ() -> None:
    below, at = (margins(np.array([x]), "fp16") for x in (65519.99, 65520.0))
    assert round(below.overflow_margin, 3) == round(at.overflow_margin, 3) == 0
    assert (below.overflows, at.overflows) == (False, True)


def test_between_the_largest_number_and_the_threshold_is_clipped_not_overflow() -> None:
    m = margins(np.array([450.0]), "e4m3")
    assert m.headroom < 0 < m.overflow_margin
    assert not m.overflows


def test_flushed_subnormals_are_held_against_the_smallest_normal() -> None:
    x = np.array([2.0**-15])
    assert margins(x, "fp16").flushes is False
    flushed = margins(x, "fp16", flush_subnormals=True)
    assert (flushed.flush_margin, flushed.flushes) == (-1.0, True)


@pytest.mark.parametrize("x", [np.zeros(4), [], -np.zeros(2), [0.0, np.nan]], ids=repr)
def test_zeros_and_nothing_are_infinitely_far_from_every_limit(x: object) -> None:
    m = margins(x, "fp16")
    assert m.status == "zero"
    assert m.headroom == m.overflow_margin == m.flush_margin == math.inf
    assert m.overflows is m.flushes is False
    assert headroom(x, "fp16") == math.inf


def test_nothing_finite_has_no_margin() -> None:
    m = margins([np.nan, np.inf], "fp16")
    assert m.status == "nonfinite"
    assert (m.headroom, m.overflows, m.dynamic_range) == (None, None, None)


def test_nan_and_inf_are_left_out_of_the_extremes() -> None:
    assert headroom([np.nan, np.inf, 32752.0], "fp16") == 1.0


def test_a_summary_without_extremes_is_unmeasured() -> None:
    assert margins(Summary(n=3), "fp16").status == "unmeasured"
    assert headroom(Summary(n=3, amax=16376.0), "fp16") == 2.0


def test_an_array_is_held_against_its_own_format_by_default() -> None:
    x = np.array([8188.0], np.float16)
    assert headroom(x) == 3.0
    assert headroom(summarize(x), "fp16") == 3.0
    with pytest.raises(ArgumentTypeError, match="fmt"):
        headroom(summarize(x))


@pytest.mark.parametrize("x", [5e-324, 1e-320, 1.7e308], ids=str)
def test_the_ends_of_float64_have_finite_margins(x: float) -> None:
    for name in ("float64", "fp16", "e4m3"):
        m = margins(np.array([x]), name)
        assert math.isfinite(m.headroom)
        assert math.isfinite(m.underflow_margin)


@pytest.mark.parametrize("name", ["int8", "q8.8", "uint8"])
def test_integers_are_held_against_the_limit_of_their_sign(name: str) -> None:
    fmt = get(name)
    for limit in {fmt.min, fmt.max} - {0.0}:
        away = math.copysign(fmt.eps, limit)
        for x, clips in ((limit, False), (limit + away / 4, True)):
            m = margins([x], fmt)
            assert (m.headroom < 0) is clips
            assert m.overflows is False
        beyond = margins([limit + away], fmt)
        assert beyond.overflows is True
        assert beyond.overflow_margin < 0


def test_a_negative_number_is_out_of_range_without_a_sign() -> None:
    assert margins([-3.0, 1.0], "uint8").headroom == -math.inf
    assert margins([-3.0, 1.0], "uint8").overflows is True
