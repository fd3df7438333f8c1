# SPDX-License-Identifier: Apache-2.0
"""What cannot be watched is refused at once, in words that say what to do."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

import numcheck
import numcheck_jax
from numcheck import adapters
from numcheck.errors import ArgumentTypeError, NonFiniteError

OURS = (str(Path(numcheck_jax.__file__).parent), str(Path(numcheck.__file__).parent))


class Callable:
    def __call__(self, x: Any) -> Any:
        return 2.0 * x


class Tensor:
    """An array of a framework that is not JAX."""

    shape = (2,)
    dtype = "strange"


class Foreign:
    name = "strange"
    call = "numcheck_strange.instrument"

    def claims(self, target: object) -> bool:
        return getattr(target, "is_strange", False)

    def claims_leaf(self, leaf: object) -> bool:
        return isinstance(leaf, Tensor)


@pytest.fixture
def _with_another_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (*adapters.adapters(), Foreign())
    monkeypatch.setattr("numcheck_jax.refusal.adapters", lambda: both)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(numcheck.instrument, id="numcheck"),
        pytest.param(numcheck_jax.instrument, id="numcheck_jax"),
    ],
)
@pytest.mark.parametrize("target", [Callable, nn.Dense])
def test_class_is_refused(call: Any, target: type) -> None:
    with pytest.raises(ArgumentTypeError, match=f"class {target.__name__}; make an "):
        call(target)
    assert float(numcheck_jax.instrument(Callable())(jnp.float32(3))) == 6.0


def test_linen_module_that_has_no_parameters_yet_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="apply method"):
        numcheck_jax.instrument(nn.Dense(3))


@pytest.mark.usefixtures("_with_another_framework")
def test_module_of_another_framework_is_refused_with_the_right_call() -> None:
    module = Callable()
    module.is_strange = True  # type: ignore[attr-defined]
    with pytest.raises(ArgumentTypeError, match=r"numcheck_strange\.instrument"):
        numcheck_jax.instrument(module)


@pytest.mark.usefixtures("_with_another_framework")
def test_function_of_another_framework_is_refused_at_its_first_call() -> None:
    step = numcheck_jax.instrument(lambda x: x)
    with pytest.raises(ArgumentTypeError, match="argument is a Tensor of strange"):
        step(Tensor())


def test_value_with_the_dtype_of_another_library_passes_unwatched() -> None:
    step = numcheck_jax.instrument(lambda x: (x, Tensor()), audit_first=False)
    step(jnp.ones(3))
    step.numcheck.close()
    assert [e for e in step.numcheck.events if e.name == "fault"] == []


def frames(error: BaseException) -> list[str]:
    return [f.filename for f in traceback.extract_tb(error.__traceback__)]


def test_user_s_error_shows_at_most_one_frame_of_numcheck_s() -> None:
    def broken(x: Any) -> Any:
        raise KeyError("mine")

    step = numcheck_jax.instrument(jax.jit(broken))
    with pytest.raises(KeyError, match="mine") as caught:
        step(jnp.ones(3))
    assert sum(name.startswith(OURS) for name in frames(caught.value)) <= 1
    assert frames(caught.value)[-1] == __file__


def test_finding_is_raised_at_the_user_s_call() -> None:
    step = numcheck_jax.instrument(jax.jit(jnp.log), lag=0)
    with pytest.raises(NonFiniteError) as caught:
        step(jnp.zeros(3))
    assert sum(name.startswith(OURS) for name in frames(caught.value)) <= 1
