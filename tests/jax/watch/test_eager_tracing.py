# SPDX-License-Identifier: Apache-2.0
"""A function that is run to be traced gives a program with its own results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcheck_jax.eager_tracing import run_noted
from tests.jax.identity.programs import PROGRAMS, W, X

if TYPE_CHECKING:
    from collections.abc import Callable


def flat(function: Callable[..., Any], treedef: Any, kwargs: Any) -> Any:
    def of_leaves(*leaves: Any) -> list[Any]:
        args = jax.tree.unflatten(treedef, leaves)
        return jax.tree.leaves(function(*args, **kwargs))

    return of_leaves


@pytest.mark.parametrize(
    "name", sorted(set(PROGRAMS) - {"static arguments", "NumPy and Python numbers"})
)
def test_noted_program_computes_what_the_function_does(name: str) -> None:
    function, args, kwargs = PROGRAMS[name]
    leaves, treedef = jax.tree.flatten(args)
    closed = run_noted(flat(function, treedef, kwargs), leaves)
    outs = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *leaves)
    wanted = jax.tree.leaves(function(*args, **kwargs))
    for a, b in zip(outs, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_noted_program_takes_the_branch_that_the_values_take() -> None:
    def branching(w: Any, x: Any) -> list[Any]:
        total = (x @ w).sum()
        if float(total) > 0:
            return [jnp.sin(w)]
        return [jnp.cos(w)] if bool(total < -1e9) else [jnp.tanh(w)]

    sign = 1.0 if float((X @ W).sum()) > 0 else -1.0
    for scale, op in ((sign, "sin"), (-sign, "tanh")):
        closed = run_noted(branching, [scale * W, X])
        taken = [name for name in ("sin", "cos", "tanh") if f" {name} " in str(closed)]
        assert taken == [op]


@pytest.mark.parametrize(
    "look",
    [bool, float, complex, str, np.asarray, lambda x: x.item(), lambda x: f"{x:.3f}"],
    ids=["bool", "float", "complex", "str", "numpy", "item", "format"],
)
def test_python_may_look_at_any_value(look: Callable[[Any], Any]) -> None:
    looked = []

    def function(x: Any) -> list[Any]:
        looked.append(look(x.sum()))
        return [x]

    run_noted(function, [X])
    assert looked == [look(X.sum())]
