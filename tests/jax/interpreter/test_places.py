# SPDX-License-Identifier: Apache-2.0
"""Module paths, transformations and lines of equations."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import pytest

from numcheck_jax.scope import Place, place_of
from numcheck_jax.source import user_line

X = jnp.ones((2, 4))


class Net(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.remat(nn.Dense)(4, name="again")(x)
        return nn.Dense(4, name="last")(nn.tanh(x))


NET = Net()
PARAMS = NET.init(jax.random.key(0), X)


def equations(f: Any, *args: Any) -> list[Any]:
    return list(jax.make_jaxpr(f)(*args).eqns)


def test_path_of_linen_modules_is_clean_of_transformations() -> None:
    eqns = equations(jax.grad(lambda p: NET.apply(p, X).sum()), PARAMS)
    places = [place_of(e.source_info.name_stack) for e in eqns]
    assert {p.scope for p in places} == {"", "Net", "Net.again", "Net.last"}
    assert any(p.is_transposed and p.scope == "Net.last" for p in places)
    assert any(
        p.is_differentiated and not p.is_transposed and p.scope == "Net.again"
        for p in places
    )


def test_named_scopes_nest() -> None:
    def f(x: Any) -> Any:
        with jax.named_scope("outer"), jax.named_scope("inner"):
            return jnp.sin(x)

    (sin,) = equations(f, X)
    assert place_of(sin.source_info.name_stack) == Place(("outer", "inner"))


@pytest.mark.parametrize(
    ("outer", "inner", "scope"),
    [
        (("Net",), ("attention", "q"), "Net.attention.q"),
        (("Net",), ("Net", "q"), "Net.q"),
        (("Net", "q"), ("q",), "Net.q"),
        ((), ("q",), "q"),
        (("Net",), (), "Net"),
    ],
    ids=["below", "repeated root", "repeated end", "top", "nothing"],
)
def test_place_in_a_body_continues_the_place_around_it(
    outer: tuple[str, ...], inner: tuple[str, ...], scope: str
) -> None:
    assert Place(outer).inside(Place(inner)).scope == scope


def test_body_inherits_that_it_is_backward() -> None:
    inside = Place(is_transposed=True).inside(Place(("q",), is_differentiated=True))
    assert inside == Place(("q",), is_differentiated=True, is_transposed=True)


def test_line_is_the_users_even_deep_inside_of_libraries() -> None:
    (softmax, *_) = equations(
        lambda x: optax.softmax_cross_entropy_with_integer_labels(x, jnp.array([0, 1])),
        X,
    )
    line = user_line(softmax.source_info)
    assert line is not None
    assert line.file == __file__
    assert "optax.softmax_cross_entropy" in line.text
    assert line.function.endswith("<lambda>")


def test_line_of_a_module_is_where_it_calls_its_layer() -> None:
    eqns = equations(lambda p: NET.apply(p, X), PARAMS)
    (tanh,) = (e for e in eqns if e.primitive.name == "tanh")
    line = user_line(tanh.source_info)
    assert line is not None
    assert line.text == 'return nn.Dense(4, name="last")(nn.tanh(x))'
    assert line.function == "Net.__call__"
