# SPDX-License-Identifier: Apache-2.0
"""The check by hand: an identity that survives every transformation."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec

import numcheck_jax
from numcheck.errors import ArgumentTypeError, NonFiniteError
from numcheck_jax import check_numerics
from numcheck_jax.boundary import BOUNDARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GOOD = jnp.array([1.0, 2.0, 4.0])
BAD = jnp.array([1.0, 0.0, 4.0])
FAILURES = (jax.errors.JaxRuntimeError, ValueError)  # as JAX's fast and slow path say


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """JAX logs what a callback raises; nothing may wait for another test."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    BOUNDARY.collect()


def checked(x: Any) -> Any:
    return jnp.sum(check_numerics(jnp.sqrt(check_numerics(x, "in")), "out"))


def unchecked(x: Any) -> Any:
    return jnp.sum(jnp.sqrt(x))


def in_scan(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.scan(lambda c, v: (c + f(v), None), jnp.zeros(()), x)[0]


def in_shard_map(f: Callable[[Any], Any], *, check_vma: bool) -> Callable[[Any], Any]:
    mesh = Mesh(np.array(jax.devices()[:4]), ("d",))
    local = jax.shard_map(
        lambda x: lax.psum(f(x), "d"),
        mesh=mesh,
        in_specs=PartitionSpec("d"),
        out_specs=PartitionSpec(),
        check_vma=check_vma,
    )
    return lambda x: local(jnp.tile(x, 4))


TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "jit": jax.jit,
    "grad": jax.grad,
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "hessian": lambda f: jax.jit(jax.hessian(f)),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "vmap": jax.vmap,
    "vmap of grad": lambda f: jax.jit(jax.vmap(jax.grad(f))),
    "scan": in_scan,
    "grad of scan": lambda f: jax.jit(jax.grad(in_scan(f))),
    "checkpoint": lambda f: jax.jit(jax.grad(jax.checkpoint(f))),
    "shard_map": lambda f: jax.jit(in_shard_map(f, check_vma=True)),
    "shard_map without vma": lambda f: jax.jit(in_shard_map(f, check_vma=False)),
    "grad of shard_map": lambda f: jax.jit(jax.grad(in_shard_map(f, check_vma=True))),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_check_is_an_identity_under(name: str) -> None:
    transform = TRANSFORMATIONS[name]
    got, wanted = transform(checked)(GOOD), transform(unchecked)(GOOD)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b)


def test_value_at_hand_raises_at_once_with_name_and_line() -> None:
    with pytest.raises(NonFiniteError) as caught:
        check_numerics(jnp.log(BAD), "logits")
    site = caught.value.finding.site
    assert (site.op, caught.value.finding.kind) == ("output:logits", "-inf")
    assert site.source is not None
    assert site.source.text == 'check_numerics(jnp.log(BAD), "logits")'


def test_gradient_at_hand_is_named_as_such() -> None:
    with pytest.raises(NonFiniteError) as caught:
        jax.grad(checked)(BAD)
    finding = caught.value.finding
    assert (finding.site.op, finding.phase) == ("gradient:in", "backward")


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("jit", "output:out"),
        ("jit of grad", "gradient:in"),
        ("vmap of grad", "gradient:in"),
        ("grad of scan", "gradient:in"),
        ("checkpoint", "gradient:in"),
        ("shard_map", "output:out"),
        ("shard_map without vma", "output:out"),
        ("grad of shard_map", "gradient:in"),
    ],
)
def test_compiled_program_fails_and_the_next_check_carries_the_finding(
    name: str, op: str
) -> None:
    x = -GOOD if op == "output:out" else BAD
    program = TRANSFORMATIONS[name](checked)
    with pytest.raises(FAILURES, match=op):
        jax.block_until_ready(program(x))
    with pytest.raises(NonFiniteError) as caught:
        check_numerics(GOOD, "next")
    assert caught.value.finding.site.op == op
    check_numerics(GOOD, "after that")


def test_pytrees_are_checked_leaf_by_leaf_and_integers_pass() -> None:
    tree = {"a": [GOOD, jnp.arange(3)], "b": None, "c": "text"}
    passed = check_numerics(tree, "tree")
    assert passed["a"][1] is tree["a"][1]
    assert passed["c"] == "text"
    with pytest.raises(NonFiniteError) as caught:
        check_numerics({"a": [GOOD, BAD / 0]}, "tree")
    assert caught.value.finding.site.op == "output:tree['a'][1]"


def test_scope_and_name_are_those_of_the_trace() -> None:
    @jax.jit
    def run(x: Any) -> Any:
        with jax.named_scope("decoder"):
            return check_numerics(jnp.log(x), "hidden")

    with pytest.raises(FAILURES, match="decoder"):
        jax.block_until_ready(run(BAD))


def test_name_must_be_a_text() -> None:
    with pytest.raises(ArgumentTypeError, match="got int"):
        check_numerics(GOOD, 3)  # type: ignore[arg-type]


def test_watched_step_takes_the_report_and_traces_it_back() -> None:
    def run(w: Any, x: Any) -> Any:
        dead = check_numerics(jnp.log(x), "hidden")
        return jnp.sum(w * jnp.where(x > 0, x, 0.0 * jnp.where(x > 0, dead, 0.0)))

    step = numcheck_jax.instrument(jax.jit(run), audit_first=False)
    assert np.isfinite(step(GOOD, BAD))
    with pytest.raises(NonFiniteError) as caught:
        step.numcheck.close()
    finding = caught.value.finding
    assert finding.site.op == "log"
    assert [s.op for s in finding.harm] == ["output:hidden"]


def test_watched_step_that_breaks_tells_one_story_not_two() -> None:
    def run(w: Any, x: Any) -> Any:
        return jnp.sum(w * check_numerics(jnp.log(x), "hidden"))

    step = numcheck_jax.instrument(jax.jit(run), audit_first=False, on_error="record")
    step(GOOD, BAD)
    assert [f.site.op for f in step.numcheck.findings] == ["log"]


def test_check_says_nothing_while_a_step_is_run_again() -> None:
    def run(w: Any, x: Any) -> Any:
        return jnp.sum(w * check_numerics(x * 2, "hidden"))

    step = numcheck_jax.instrument(run)
    step(GOOD, GOOD)
    step.numcheck.close()
    assert step.numcheck.findings == ()
    assert BOUNDARY.collect() == ()


def test_check_in_a_watched_function_inside_a_program_reports_to_its_monitor() -> None:
    def run(w: Any, x: Any) -> Any:
        dead = check_numerics(jnp.log(x), "hidden")
        return jnp.sum(w * jnp.where(x > 0, x, 0.0 * jnp.where(x > 0, dead, 0.0)))

    watched = numcheck_jax.instrument(run, audit_first=False)
    assert np.isfinite(jax.block_until_ready(jax.jit(watched)(GOOD, BAD)))
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    assert caught.value.finding.site.op == "output:hidden"
