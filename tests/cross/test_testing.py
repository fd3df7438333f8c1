# SPDX-License-Identifier: Apache-2.0
"""Assertions and the pytest fixture hold for both frameworks' programs and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

from numcheck.testing import assert_close_in_format, assert_finite, assert_headroom

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.pytest_plugin import Watch

pytest_plugins = ["pytester"]


class Squares(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * x).mean()


def squares(x: Any) -> Any:
    return (x * x).mean()


PROGRAMS = {
    "torch module": (Squares(), torch.tensor),
    "jax function": (squares, jnp.array),
    "jitted function": (jax.jit(squares), jnp.array),
}


@pytest.mark.parametrize(("program", "array"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_tightest_operator_counts_not_the_result(
    program: Callable[..., Any], array: Callable[..., Any]
) -> None:
    # 200 squared is 40000: 0.7 bits of float16 are left; the mean is 100 times less.
    values = (
        array([200.0] + [0.0] * 99).to(torch.float16)
        if (array is torch.tensor)
        else array([200.0] + [0.0] * 99, jnp.float16)
    )
    assert_headroom(program, values, bits=0.5)
    with pytest.raises(AssertionError, match=r"mul.*: \+0\.71 bits in float16"):
        assert_headroom(program, values, bits=1)


@pytest.mark.parametrize(("program", "array"), PROGRAMS.values(), ids=PROGRAMS)
def test_another_format_may_be_asked_for(
    program: Callable[..., Any], array: Callable[..., Any]
) -> None:
    with pytest.raises(AssertionError, match="bits in float8_e4m3fn"):
        assert_headroom(program, array([20.0, 10.0]), bits=1, format="e4m3")


def test_a_function_that_fails_by_itself_says_so_itself() -> None:
    def wrong(x: Any) -> Any:
        raise KeyError(x.shape)

    for program in (wrong, jax.jit(wrong)):
        with pytest.raises(KeyError):
            assert_headroom(program, jnp.ones(2), bits=1)


def test_arrays_of_both_frameworks_are_looked_into() -> None:
    held = {"t": [torch.tensor([1.0, float("nan")])], "j": (jnp.array(jnp.inf),)}
    with pytest.raises(AssertionError) as raised:
        assert_finite(held, "state")
    assert [line.split(" is")[0] for line in str(raised.value).splitlines()] == [
        "state['t'][0]",
        "state['j'][0]",
    ]
    assert_finite(nn.Linear(2, 2).state_dict())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_neighbouring_values_are_close_across_frameworks(dtype: str) -> None:
    one = torch.ones(3).to(getattr(torch, dtype))
    next_one = jnp.full(3, 1 + float(jnp.finfo(dtype).eps)).astype(dtype)
    assert_close_in_format(one, next_one, ulps=1)
    with pytest.raises(AssertionError, match="differ by more than 0 values"):
        assert_close_in_format(one, next_one, ulps=0)
    assert_close_in_format(np.asarray(next_one, np.float32), next_one, dtype, ulps=0)


def test_the_fixture_finds_what_both_frameworks_break(numcheck: Watch) -> None:
    model = numcheck.instrument(nn.ReLU(), on_error="record", audit_first=False)
    x = torch.zeros(2, requires_grad=True)
    torch.log(model(x)).sum().backward()
    step = numcheck.instrument(jax.jit(lambda x: jnp.log(x).sum()), on_error="record")
    step(jnp.zeros(2))
    numcheck.close()
    assert {f.id for f in numcheck.findings} == {"N301"}
    assert {f.site.op for f in numcheck.findings} == {"aten.log.default", "log"}


TEST = """
import {framework}
def test_a(numcheck):
    {body}
"""
BODIES = {
    "torch": """
    model = numcheck.instrument(torch.nn.ReLU(), on_error="record")
    x = torch.zeros(2, requires_grad=True)
    torch.log(model(x)).sum().backward()
    numcheck.close()
    assert False
""",
    "jax": """
    step = numcheck.instrument(lambda x: jax.numpy.log(x).sum(), on_error="record")
    step(jax.numpy.zeros(2))
    numcheck.close()
    assert False
""",
}


@pytest.mark.parametrize("framework", BODIES)
def test_a_failing_test_shows_the_card_in_its_own_section(
    framework: str, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(TEST.format(framework=framework, body=BODIES[framework]))
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*numcheck (call)*", "error[[]N301]*logarithm*"])
