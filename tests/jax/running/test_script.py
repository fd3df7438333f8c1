# SPDX-License-Identifier: Apache-2.0
"""An unmodified script's own jitted functions are watched."""

from __future__ import annotations

import runpy
import sys
from typing import TYPE_CHECKING, Any

import jax
import pytest

from numcheck.cli import main
from numcheck.errors import NonFiniteError
from numcheck.options import Options
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


NNX = """
from flax import nnx
import jax.numpy as jnp

class Net(nnx.Module):
    def __init__(self):
        self.inner = nnx.Linear(2, 2, rngs=nnx.Rngs(0))

    def __call__(self, x):
        return jnp.log(x) + self.inner(x)

@nnx.jit
def step(net, x):
    return net(x).sum()

net = Net()
for x in (1.0, 0.0):
    step(net, jnp.full((3, 2), x))
"""

EQUINOX = """
import equinox as eqx
import jax
import jax.numpy as jnp

class Net(eqx.Module):
    inner: eqx.nn.Linear

    def __call__(self, x):
        return jnp.log(x) + self.inner(x)

@eqx.filter_jit
def step(net, x):
    return jax.vmap(net)(x).sum()

net = Net(eqx.nn.Linear(2, 2, key=jax.random.key(0)))
for x in (1.0, 0.0):
    step(net, jnp.full((3, 2), x))
"""


@pytest.mark.parametrize(
    ("library", "script"), [("flax.nnx", NNX), ("equinox", EQUINOX)]
)
def test_command_watches_what_other_libraries_jit(
    tmp_path: Path, library: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(library)
    path = tmp_path / "train.py"
    path.write_text(script)
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path)])
    assert ended.value.code == 1
    said = "".join(capsys.readouterr())
    assert "error[N301]" in said
    # A narrow page breaks a long path, not the line of the script below it.
    assert "return jnp.log(x) + self.inner(x)" in said
