# SPDX-License-Identifier: Apache-2.0
"""A watched function can be transformed like the one it watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import numcheck_jax
from tests.jax.identity.programs import W, X, plain, scanned

if TYPE_CHECKING:
    from collections.abc import Callable

TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "jit": jax.jit,
    "grad": jax.grad,
    "value_and_grad": jax.value_and_grad,
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "grad of jit": lambda f: jax.grad(jax.jit(f)),
    "vmap": lambda f: lambda w, x: jax.vmap(f, (None, 0))(w, x[:, None]),
    "vmap of grad": lambda f: (
        lambda w, x: jax.vmap(jax.grad(f), (None, 0))(w, x[:, None])
    ),
    "grad of vmap": lambda f: jax.grad(
        lambda w, x: jax.vmap(f, (None, 0))(w, x[:, None]).sum()
    ),
    "jvp": lambda f: lambda w, x: jax.jvp(f, (w, x), (w, x)),
    "jacfwd": jax.jacfwd,
    "jit of hessian": lambda f: jax.jit(jax.hessian(f)),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "scan": lambda f: (
        lambda w, x: lax.scan(
            lambda c, v: (c + f(w, v[None]), f(w, v[None])), jnp.zeros(()), x
        )
    ),
    "grad of scan": lambda f: jax.grad(
        lambda w, x: lax.scan(lambda c, v: (c + f(w, v[None]), None), 0.0, x)[0]
    ),
    "eval_shape": lambda f: lambda w, x: jax.eval_shape(f, w, x).shape,
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.parametrize(
    "function", [plain, scanned, jax.jit(plain)], ids=["plain", "scan", "jit"]
)
def test_transformed_watched_function_gives_the_plain_results(
    name: str, function: Callable[..., Any]
) -> None:
    watched = numcheck_jax.instrument(function, audit_first=False)
    transform = TRANSFORMATIONS[name]
    got, wanted = transform(watched)(W, X), transform(function)(W, X)
    watched.numcheck.close()
    # The check is part of the program here, and may move a rounding.
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    assert watched.numcheck.findings == ()
    assert [e for e in watched.numcheck.events if e.name == "fault"] == []


def test_watched_function_keeps_name_signature_and_jit_s_attributes() -> None:
    import inspect

    jitted = jax.jit(plain)
    watched = numcheck_jax.instrument(jitted)
    assert watched.__name__ == "plain"
    assert inspect.signature(watched) == inspect.signature(plain)
    assert watched.lower(W, X).as_text() == jitted.lower(W, X).as_text()
    assert str(watched.trace(W, X).jaxpr) == str(jitted.trace(W, X).jaxpr)
    with pytest.raises(AttributeError, match="no_such"):
        _ = watched.no_such


def test_watched_function_in_a_class_is_a_method() -> None:
    class Model:
        scale = 2.0

        @numcheck_jax.instrument
        def __call__(self, x: Any) -> Any:
            return self.scale * x.sum()

    assert float(Model()(X)) == float(2.0 * X.sum())
