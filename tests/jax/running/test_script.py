# SPDX-License-Identifier: Apache-2.0
"""An unmodified script's own jitted functions are watched."""

from __future__ import annotations

import runpy
import sys
from typing import TYPE_CHECKING, Any

import jax
import pytest

from numcheck.errors import NonFiniteError
from numcheck.monitor import Options
from numcheck_jax.running import watching

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCRIPT = """
import functools
import jax
import jax.numpy as jnp
from jax import jit

@jit
def inner(x):
    return 2.0 * x

@functools.partial(jax.jit, static_argnames="power")
def step(w, x, power=1):
    return w - 0.1 * jnp.sum(jnp.log(inner(x)) ** power)

class Trainer:
    scale = 1.0

    @functools.partial(jax.jit, static_argnums=0)
    def apply(self, x):
        return self.scale * x

Trainer().apply(jnp.ones(3))
w = jnp.ones(3)
for x in {values}:
    w = step(w, jnp.full(2, x), power=3)
"""


def run(folder: Path, values: str, options: Options) -> list[Any]:
    script = folder / "train.py"
    script.write_text(SCRIPT.replace("{values}", values))
    with watching(options) as monitors:
        try:
            runpy.run_path(str(script), run_name="__main__")
        except NonFiniteError:
            assert options.on_error == "raise"
    return list(monitors)


@pytest.mark.parametrize("on_error", ["raise", "record"])
def test_fault_in_a_jitted_function_is_named(tmp_path: Path, on_error: Any) -> None:
    monitors = run(
        tmp_path, "(1.0, 0.0, 2.0)", Options(audit_first=False, on_error=on_error)
    )
    # The method and the step; the inner function runs inside the step alone.
    assert len(monitors) == 2
    (finding,) = [f for m in monitors for f in m.findings]
    assert (finding.site.op, finding.step) == ("log", 1)
    assert finding.site.source.file == str(tmp_path / "train.py")


def test_healthy_script_has_monitors_and_no_finding(tmp_path: Path) -> None:
    monitors = run(tmp_path, "(1.0, 2.0)", Options(audit_first=False))
    assert [m.findings for m in monitors] == [(), ()]
    assert [e for m in monitors for e in m.events if e.name == "fault"] == []


def test_afterwards_everything_is_as_before(tmp_path: Path) -> None:
    before: tuple[Callable[..., Any], list[Any]] = (jax.jit, list(sys.meta_path))
    run(tmp_path, "(1.0,)", Options(audit_first=False))
    assert (jax.jit, list(sys.meta_path)) == before
