# SPDX-License-Identifier: Apache-2.0
"""Arguments that are no arrays: what a measured step makes of their values."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck_jax
from numcheck_jax.capture import capture
from numcheck_jax.kept_programs import KeptPrograms

if TYPE_CHECKING:
    from numcheck_jax.capture import Call

X = jnp.arange(1.0, 5.0)


def watched(function: Any, **options: Any) -> Any:
    options = {"level": "anchors", "audit_first": False, **options}
    return numcheck_jax.instrument(function, on_error="record", **options)


def notes(function: Any) -> list[str]:
    events = function.numcheck.events
    assert [e.value for e in events if e.name == "fault"] == []
    return [str(e.value) for e in events if e.name == "note"]


def test_number_that_a_jit_traces_compiles_nothing_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = jax.jit(lambda x, i, *, on: jnp.where(on, x * i, x) @ x)
    step = watched(plain)
    step(X, 0, on=True)
    step(X, 1, on=False)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        got = [step(X, i, on=i % 2 == 0) for i in range(2, 8)]
    assert [m for m in caplog.messages if "ompil" in m] == []
    assert got == [plain(X, i, on=i % 2 == 0) for i in range(2, 8)]
    step.numcheck.close()


@pytest.mark.parametrize("static", [{"static_argnums": 1}, {"static_argnums": -1}])
def test_static_number_keeps_its_meaning(static: Any) -> None:
    plain = jax.jit(lambda x, s: x * s, **static)
    step = watched(plain)
    values = (0.5, 0.7, 2, 0.5, -0.0, 0.0)
    got = [np.asarray(step(X, s)).tobytes() for s in values]
    assert got == [np.asarray(plain(X, s)).tobytes() for s in values]


def test_result_that_a_bare_number_gave_is_as_weakly_typed() -> None:
    plain = jax.jit(lambda x, lr, i: (x * lr, lr * 2, i + 1))
    step = watched(plain)
    got, expected = step(X, 0.1, 3), plain(X, 0.1, 3)
    assert [a.weak_type for a in got] == [a.weak_type for a in expected]
    assert [a.dtype for a in got] == [a.dtype for a in expected]


def test_plain_function_is_measured_on_the_branch_that_it_took() -> None:
    def step(x: Any, i: int, scale: Any) -> Any:
        factor = 10.0 if i % 2 else 1.0
        return jnp.dot(x * factor, x) * float(np.sum(scale))

    function = watched(step, level="trace")
    for i in range(4):
        function(X, i, np.full(2, float(i)))
    function.numcheck.close()
    trace = function.numcheck.trace
    (dot,) = [s.index for s in trace.sites if s.op == "dot_general"]
    seen = [trace.summaries[i, 0][dot] for i in range(4)]
    assert [s.amax for s in seen] == [30.0, 300.0, 30.0, 300.0]
    assert notes(function) == []


def test_ever_new_constants_are_forgotten_and_that_is_said() -> None:
    function = watched(lambda x, i: x * i)
    for i in range(20):
        function(X, i)
    function.numcheck.close()
    assert notes(function) == ["notice.changing"]
    told = {lang: function.numcheck.report(lang=lang) for lang in ("en", "zh")}
    assert "static argument of jax.jit" in " ".join(told["en"].split())
    assert "静态参数" in told["zh"].replace("\n", "").replace(" ", "")
    assert "compiled again" not in told["zh"]


def test_only_what_an_equal_call_needs_is_found_again() -> None:
    kept: KeptPrograms[float] = KeptPrograms()

    def call(*args: Any) -> Call:
        return capture(print, args, {}, 0)

    for value in (0.0, -0.0, float("nan"), 1.0):
        assert kept.find(call(X, value)) is None
        kept.keep(call(X, value), {0}, value)
    assert str(kept.find(call(X, -0.0))) == "-0.0"
    assert str(kept.find(call(X + 1, float("nan")))) == "nan"
    assert kept.find(call(X, 1)) is None
    dropped = [kept.keep(call(X, float(k)), {0}, k) for k in range(2, 30)]
    assert (dropped[0], dropped[-1]) == (False, True)
    assert kept.find(call(X, 0.0)) is None
    assert kept.find(call(X, 29.0)) == 29
