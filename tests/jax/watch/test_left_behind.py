# SPDX-License-Identifier: Apache-2.0
"""What a loop leaves behind when it gives up is looked at all the same."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import numcheck_jax
from numcheck.errors import NonFiniteError

PROGRAM = """
import jax, jax.numpy as jnp, numcheck_jax

def main():
    step = numcheck_jax.instrument(jax.jit(lambda x: jnp.log(x).sum()))
    for i in range(5):
        if not jnp.isfinite(step(jnp.ones(3) * (-1.0 if i == 3 else 1.0))):
            return

main()
"""


def test_a_loop_that_returns_on_a_bad_loss_is_still_explained() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert "error[N301]" in run.stderr
    assert "step 3" in run.stderr


def test_a_function_watched_twice_is_watched_once() -> None:
    once = numcheck_jax.instrument(jax.jit(lambda x: jnp.sqrt(x).sum()))
    twice = numcheck_jax.instrument(once, lag=0)
    with pytest.raises(NonFiniteError) as raised:
        twice(jnp.array([-1.0, 4.0]))
    assert (raised.value.finding.id, raised.value.finding.phase) == ("N302", "forward")


def test_a_function_that_was_dropped_takes_no_other_programs_reports() -> None:
    # Its last step waits to be looked at, and keeps its monitor alive.
    numcheck_jax.instrument(jax.jit(jnp.sum), audit_first=False)(jnp.ones(3))
    with pytest.raises(NonFiniteError, match="bad"):
        numcheck_jax.check_numerics(jnp.array([jnp.nan]), "bad")
    checked = jax.jit(lambda x: numcheck_jax.check_numerics(jnp.log(x), "late"))
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="late"):
        checked(jnp.zeros(3)).block_until_ready()
    with pytest.raises(NonFiniteError, match="late"):
        numcheck_jax.check_numerics(jnp.ones(3), "the next")
