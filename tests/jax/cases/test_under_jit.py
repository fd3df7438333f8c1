# SPDX-License-Identifier: Apache-2.0
"""The given programs again, watched inside the user's own jit."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import pytest

import numcheck_jax
from benchmarks.cases import load

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding

ROOT = Path(__file__).parents[2] / "cases"
CONTROLS = {
    path.stem: path
    for path in sorted((ROOT / "controls").glob("[0-9]*.py"))
    if 'FRAMEWORK = "torch"' not in (text := path.read_text()) and '"jax"' in text
}
FAULTY = {path.stem: path for path in sorted((ROOT / "jax").glob("[0-9]*.py"))}
HEALTHY = [
    *((name, path, False) for name, path in CONTROLS.items()),
    *((name, path, True) for name, path in FAULTY.items()),
]


def ran(built: dict[str, Any], step: Any) -> bool:
    """Run a case; return whether all that it gave is finite."""
    state, rest = built["args"][0], built["args"][1:]
    batches = itertools.cycle(built.get("batches", [rest]))
    finite = True
    for _ in range(built["steps"]):
        if built.get("carries_state"):
            out = step(state, next(batches))
            state = out[0]
        else:
            out = step(*built["args"])
        for leaf in jax.tree.leaves(out):
            if jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.inexact):
                finite &= math.isfinite(float(jnp.abs(leaf).max(initial=0)))
    return finite


def watched_under_jit(built: dict[str, Any]) -> tuple[bool, list[Finding]]:
    watched = numcheck_jax.instrument(built["fn"], on_error="record")
    finite = ran(built, jax.jit(watched))
    watched.numcheck.close()
    assert [e.value for e in watched.numcheck.events if e.name == "fault"] == []
    return finite, [f for f in watched.numcheck.findings if f.severity != "note"]


@pytest.mark.parametrize(
    ("path", "fixed"), [pytest.param(p, fixed, id=name) for name, p, fixed in HEALTHY]
)
@pytest.mark.filterwarnings("ignore")
def test_a_healthy_program_gives_no_finding(path: Path, fixed: bool) -> None:
    module = load(path)
    built = module.build(fixed=True) if fixed else module.build()
    assert watched_under_jit(built)[1] == []


@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.filterwarnings("ignore")
def test_a_fault_that_leaves_nan_or_inf_is_named(name: str) -> None:
    module = load(FAULTY[name])
    finite, findings = watched_under_jit(module.build())
    if finite and not findings:
        return  # what harms in silence is not looked for inside a transformation
    first = findings[0]
    assert first.site.op in module.EXPECTED["first_bad_op"]
    assert first.phase == module.EXPECTED["phase"]
