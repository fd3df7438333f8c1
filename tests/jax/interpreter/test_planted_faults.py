# SPDX-License-Identifier: Apache-2.0
"""A fault in any construct is named with operator, phase, line, and iteration."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from numcheck_jax.compiled import compiled_trace
from tests.jax.interpreter.constructs import (
    CONSTRUCTS,
    LATE,
    LONG,
    X,
    linen,
    logarithm,
    nested_scan,
    reversed_scan,
    root,
    scan,
    sharded,
    while_loop,
)
from tests.jax.interpreter.recording import births, recorded, traced

REVERSIBLE = [name for name, (_, _, reverses) in CONSTRUCTS.items() if reverses]


def line_of(function: Any) -> int:
    return inspect.getsourcelines(function)[1] + 1


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_forward_fault_is_named(name: str) -> None:
    construct, iteration, _ = CONSTRUCTS[name]
    builder, _ = recorded(construct(logarithm), X)
    (origin,) = births(builder)
    assert (origin.op, origin.phase, origin.iteration) == ("log", "forward", iteration)
    assert origin.source is not None
    assert origin.source.line == line_of(logarithm)
    assert origin.source.text == "return jnp.log(v)"
    assert builder.summaries[origin.index].kind == "-inf"


@pytest.mark.parametrize("name", REVERSIBLE)
def test_backward_fault_is_named(name: str) -> None:
    construct, iteration, _ = CONSTRUCTS[name]
    builder, _ = recorded(jax.value_and_grad(construct(root)), X)
    first, *_ = births(builder)
    assert (first.op, first.phase, first.iteration) == ("div", "backward", iteration)
    assert first.source is not None
    if name.endswith("custom_vjp"):
        # JAX files what a backward rule computes under the call it belongs to.
        assert first.source.file.endswith("constructs.py")
    else:
        assert first.source.line == line_of(root)


@pytest.mark.parametrize("name", REVERSIBLE)
def test_backward_fault_is_named_without_the_loss_among_the_outputs(name: str) -> None:
    construct, iteration, _ = CONSTRUCTS[name]
    builder, _ = recorded(jax.grad(construct(root)), X)
    first, *_ = births(builder)
    assert (first.op, first.phase, first.iteration) == ("div", "backward", iteration)


@pytest.mark.parametrize(
    ("construct", "iteration"),
    [
        pytest.param(scan, (LATE,), id="scan"),
        pytest.param(reversed_scan, (LATE,), id="reversed scan"),
        pytest.param(while_loop, (LATE,), id="while"),
    ],
)
def test_fault_late_in_a_long_loop_has_its_iteration(
    construct: Any, iteration: tuple[int, ...]
) -> None:
    builder, _ = recorded(construct(logarithm), LONG)
    (origin,) = births(builder)
    assert (origin.op, origin.iteration) == ("log", iteration)
    assert len(builder.sites) < LONG.size


def test_fault_late_in_a_long_backward_loop_has_its_iteration() -> None:
    builder, _ = recorded(jax.value_and_grad(scan(root)), LONG)
    first, *_ = births(builder)
    assert (first.op, first.phase, first.iteration) == ("div", "backward", (LATE,))


def test_fault_in_the_inner_of_two_long_loops_has_both_iterations() -> None:
    def element(total: Any, v: Any) -> Any:
        return total + logarithm(v), None

    def row(total: Any, v: Any) -> Any:
        return jax.lax.scan(element, total, v)[0], None

    def f(x: Any) -> Any:
        return jax.lax.scan(row, 0.0, x)[0]

    x = jnp.ones((40, 30)).at[33, 21].set(0.0)
    builder, _ = recorded(f, x)
    (origin,) = births(builder)
    assert origin.iteration == (33, 21)


def test_fault_in_a_module_carries_its_path_forward_and_backward() -> None:
    (origin,) = births(recorded(linen(logarithm), X)[0])
    assert origin.scope == "Outer.block"
    first, *_ = births(recorded(jax.value_and_grad(linen(root)), X)[0])
    assert first.scope == "Outer.block"


def test_fault_in_one_shard_names_the_shard() -> None:
    (origin,) = births(recorded(sharded(logarithm), X)[0])
    assert ("shard", 2) in origin.detail


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_compiled_program_finds_the_fault_too(name: str) -> None:
    construct, iteration, _ = CONSTRUCTS[name]
    closed, leaves = traced(construct(logarithm), X)
    compiled = compiled_trace(closed, policy="risky")
    _, rows = jax.jit(compiled.function)(*leaves)
    held = compiled.summaries(rows)
    origin = next(i for i, summary in held.items() if summary.is_finite is False)
    assert compiled.sites[origin].op == "log"
    if iteration:
        assert compiled.first_iterations(rows)[origin] == iteration[0]


def test_nothing_is_born_where_nothing_is_wrong() -> None:
    for construct in (scan, nested_scan, while_loop):
        assert births(recorded(construct(logarithm), X + 1.0)[0]) == []
