# SPDX-License-Identifier: Apache-2.0
"""A kernel that breaks on the device alone is told from a formula that breaks.

The device is the CPU under another name; one kernel of it is faulty wherever the CPU
was not asked for by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Primitive
from jax.interpreters import mlir

import numcheck_jax
from numcheck.diagnose.laboratory import CannotRunError
from numcheck_jax import varied

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding

OTHER = "an accelerator"


def kernel(x: Any) -> Any:
    """Returns a root, and NaN for large numbers on the accelerator."""
    right = jnp.sqrt(x)
    if jax.config.jax_default_device is not None:
        return right
    return jnp.where(x > 100, jnp.nan, right)


ROOT = Primitive("root_of")
ROOT.def_impl(kernel)
ROOT.def_abstract_eval(lambda x: x)
mlir.register_lowering(ROOT, mlir.lower_fun(kernel, multiple_results=False))


@pytest.fixture
def _on_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: OTHER)


def found(function: Any, x: jax.Array) -> Finding:
    watched = numcheck_jax.instrument(function, lag=0, on_error="record")
    watched(jnp.ones(3))
    watched(x)
    (finding,) = (f for f in watched.numcheck.findings if f.severity == "error")
    return finding


@pytest.mark.usefixtures("_on_an_accelerator")
@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f], ids=["jitted", "plain"])
def test_an_operator_that_is_finite_on_the_cpu_is_the_kernel_s_fault(wrap: Any) -> None:
    finding = found(wrap(lambda x: ROOT.bind(x * 2).sum()), jnp.array([1.0, 90.0, 4.0]))
    assert finding.site.op == "root_of"
    assert finding.cause is not None
    assert (finding.cause.cls, finding.cause.rule) == ("hardware", "N653")


@pytest.mark.usefixtures("_on_an_accelerator")
def test_an_operator_that_breaks_on_the_cpu_too_is_not() -> None:
    finding = found(jax.jit(lambda x: jnp.log(x - 1.5).sum()), jnp.array([1.0, 2.0]))
    assert finding.cause is not None
    assert finding.cause.cls != "hardware"
    assert "operator_on_cpu_failed" in {e.key for e in finding.evidence}


@pytest.mark.usefixtures("_on_an_accelerator")
def test_a_failure_that_does_not_repeat_is_no_race_where_a_compiler_orders_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "numcheck_jax.laboratory.JaxLaboratory.reproduced", property(lambda _: False)
    )
    watched = numcheck_jax.instrument(jax.jit(jnp.log), lag=0, on_error="record")
    watched(jnp.array([-1.0]))
    assert all(
        f.cause is None or f.cause.rule != "N652" for f in watched.numcheck.findings
    )


def test_on_the_cpu_there_is_nothing_to_compare_with() -> None:
    watched = numcheck_jax.instrument(jax.jit(jnp.log), lag=0, on_error="record")
    watched(jnp.array([-1.0]))
    (finding,) = watched.numcheck.findings
    assert not any(e.key.startswith("operator_on_cpu") for e in finding.evidence)


def test_without_a_cpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise RuntimeError("Unknown backend cpu")

    monkeypatch.setattr(jax, "local_devices", refuse)
    with pytest.raises(CannotRunError, match=r"refusal\.no_cpu"):
        varied.operator_on_cpu(None, (), None, None)  # type: ignore[arg-type]
