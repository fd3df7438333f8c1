# SPDX-License-Identifier: Apache-2.0
"""A script's many functions: jitted by keyword, called once, made in a loop."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

import pytest

from numcheck.options import Options
from numcheck_jax.running import watching

if TYPE_CHECKING:
    from pathlib import Path

    from numcheck.monitor import Monitor

RECORD = Options(audit_first=False, on_error="record")


def run(folder: Path, script: str) -> tuple[dict[str, Any], list[Monitor]]:
    file = folder / "train.py"
    file.write_text(script)
    with watching(RECORD) as monitors:
        names = runpy.run_path(str(file), run_name="__main__")
    return names, list(monitors)


@pytest.mark.parametrize(
    ("module", "jit"), [("flax.nnx", "jit"), ("equinox", "filter_jit")]
)
def test_function_given_by_keyword_is_jitted_and_watched(
    tmp_path: Path, module: str, jit: str
) -> None:
    pytest.importorskip(module)
    script = f"""
import jax.numpy as jnp
from {module} import {jit}
y = {jit}(fun=lambda x: jnp.log(x))(jnp.zeros(3))
z = {jit}()(lambda x: x + 1.0)(jnp.ones(3))
"""
    names, monitors = run(tmp_path, script)
    assert (names["y"].shape, names["z"].tolist()) == ((3,), [2.0, 2.0, 2.0])
    assert [[f.site.op for f in m.findings] for m in monitors] == [["log"], []]


def test_function_called_once_holds_its_arguments_until_another_is_called(
    tmp_path: Path,
) -> None:
    script = """
import gc, weakref
import jax, jax.numpy as jnp

once, often = jax.jit(lambda x: 2.0 * x), jax.jit(lambda x: 3.0 * x)
x = jnp.ones(1000)
given = weakref.ref(x)
jax.block_until_ready(once(x))
del x
gc.collect()
held_before = given() is not None
for k in range(3):
    jax.block_until_ready(often(jnp.ones(10)))
gc.collect()
held_after = given() is not None
"""
    names, monitors = run(tmp_path, script)
    assert (names["held_before"], names["held_after"]) == (True, False)
    assert len(monitors) == 2


def test_functions_made_in_a_loop_are_forgotten_but_not_their_findings(
    tmp_path: Path,
) -> None:
    script = """
import gc, weakref
import jax, jax.numpy as jnp

made = []
for k in range(24):
    power = jax.jit(lambda x: jnp.log(x) * k)
    made.append(weakref.ref(power.__wrapped__))
    jax.block_until_ready(power(jnp.full(4, 0.0 if k == 2 else 1.0)))
    del power
    gc.collect()
alive = sum(ref() is not None for ref in made)
"""
    names, monitors = run(tmp_path, script)
    found = [f for m in monitors for f in m.findings]
    assert [f.site.op for f in found] == ["log"]
    assert len(monitors) < 12
    assert names["alive"] < 12
