# SPDX-License-Identifier: Apache-2.0
"""The door: whose is this object, and what does importing cost."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from flax.training.train_state import TrainState

import numcheck
from numcheck.errors import AmbiguousTargetError, NonFiniteError
from numcheck_jax.adapter import ADAPTER


def plain(x: Any) -> Any:
    return jnp.log(x).sum()


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (jax.jit(plain), True),
        (jax.value_and_grad(plain), True),
        (jax.vmap(plain), True),
        (nnx.jit(plain), True),
        (functools.partial(jax.jit(plain)), True),
        (plain, False),
        (functools.partial(plain), False),
        (np.sin, False),
        (print, False),
    ],
    ids=["jit", "grad", "vmap", "nnx", "partial", "plain", "pp", "numpy", "builtin"],
)
def test_compiled_and_transformed_functions_are_claimed(
    target: object, wanted: bool
) -> None:
    assert ADAPTER.claims(target) is wanted


@pytest.mark.parametrize(
    ("leaf", "wanted"),
    [
        (jnp.ones(2), True),
        (jax.random.key(0), True),
        (nnx.Linear(2, 2, rngs=nnx.Rngs(0)), True),
        (nn.Dense(2), True),
        (TrainState, False),
        (np.ones(2), False),
        (1.0, False),
        ("text", False),
    ],
    ids=["array", "key", "nnx", "linen", "class", "numpy", "number", "text"],
)
def test_arrays_and_modules_are_claimed(leaf: object, wanted: bool) -> None:
    assert ADAPTER.claims_leaf(leaf) is wanted


def test_plain_function_is_decided_at_its_first_call() -> None:
    step = numcheck.instrument(plain, audit_first=False)
    step(jnp.array([0.0]))
    with pytest.raises(NonFiniteError):
        step.numcheck.close()


def test_function_of_numpy_alone_is_nobody_s() -> None:
    step = numcheck.instrument(plain)
    with pytest.raises(AmbiguousTargetError, match=r"numcheck_jax\.instrument"):
        step(np.array([1.0]))


@pytest.mark.parametrize(
    "statement", ["import numcheck_jax", "import numcheck_jax.adapter"]
)
def test_importing_loads_no_framework(statement: str) -> None:
    program = f"import sys; {statement}; print('jax' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == "False"


def test_public_names_are_listed_before_any_is_used() -> None:
    program = "import numcheck_jax; print(*dir(numcheck_jax))"
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert {"check_numerics", "instrument"} <= set(run.stdout.split())
