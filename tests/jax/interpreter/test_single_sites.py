# SPDX-License-Identifier: Apache-2.0
"""Kernels and foreign calls, into which no interpreter can look, are one site each."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas

import numcheck_jax
from tests.jax.interpreter.constructs import X
from tests.jax.interpreter.recording import births, recorded


def kernel(x: Any) -> Any:
    def body(source: Any, target: Any) -> None:
        target[...] = jnp.log(source[...])

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pallas.pallas_call(body, out_shape=shape, interpret=True)(x)


def foreign(x: Any) -> Any:
    def on_host(v: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(v))

    return jax.pure_callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize(
    ("call", "op"),
    [(kernel, "pallas_call"), (foreign, "pure_callback")],
    ids=["pallas", "foreign"],
)
def test_fault_inside_is_named_by_the_call(call: Any, op: str) -> None:
    (origin,) = births(recorded(lambda x: 2.0 * call(x), X)[0])
    assert (origin.op, origin.phase) == (op, "forward")
    step = numcheck_jax.instrument(
        jax.jit(lambda x: call(x).sum()), on_error="record", lag=0
    )
    step(X + 1.0)
    step(X)
    (finding,) = step.numcheck.findings
    assert (finding.site.op, finding.step, finding.reproduced) == (op, 1, True)
    assert finding.site.source is not None
    assert finding.site.source.file == __file__
