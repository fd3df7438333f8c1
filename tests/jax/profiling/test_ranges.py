# SPDX-License-Identifier: Apache-2.0
"""A profile's ranges carry the names of a report's sites."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

import numcheck_jax

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = jnp.ones((2, 4))


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(self.up(x))


class Stack(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(rngs) for _ in range(2)])

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return x


class Net(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(2, name="outer")(nn.Dense(4, name="inner")(x))


def ranges(folder: Path, work: Callable[[], Any]) -> list[str]:
    """Returns the names of an exported profile's events, in order of their start."""
    with jax.profiler.trace(str(folder)):
        jax.block_until_ready(work())
    (file,) = folder.rglob("*.trace.json.gz")
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    timed = sorted((e for e in events if "ts" in e), key=lambda e: (e["ts"], -e["dur"]))
    return [e["name"] for e in timed]


def under_ranges(run: Callable[[], Any]) -> Any:
    with numcheck_jax.profiler_ranges():
        return run()


NNX = ["Stack", *(f"Stack.blocks.{i}{part}" for i in (0, 1) for part in ("", ".up"))]
LINEN = ["Net", "Net.inner", "Net.outer"]


def work_of(kind: str) -> Callable[[], Any]:
    """Returns a call of a small model, outside of any jit."""
    if kind == "nnx":
        stack = Stack(nnx.Rngs(0))
        return lambda: stack(X)
    params = Net().init(jax.random.key(0), X)
    return lambda: Net().apply(params, X)


@pytest.mark.parametrize(("kind", "expected"), [("nnx", NNX), ("linen", LINEN)])
def test_each_module_has_its_range_in_an_exported_profile(
    tmp_path: Path, kind: str, expected: list[str]
) -> None:
    work = work_of(kind)
    work()  # compiled before the profile starts
    found = ranges(tmp_path, lambda: under_ranges(work))
    assert [name for name in found if name in expected] == expected


@pytest.mark.parametrize("kind", ["nnx", "linen"])
def test_outside_the_block_no_module_has_a_range(tmp_path: Path, kind: str) -> None:
    work = work_of(kind)
    under_ranges(work)
    assert not {*NNX, *LINEN} & set(ranges(tmp_path, work))


def test_compiled_operators_carry_the_path() -> None:
    stack = Stack(nnx.Rngs(0))

    def text(within: Callable[[Callable[[], str]], str]) -> str:
        jitted = jax.jit(lambda x: stack(x))  # noqa: PLW0108 - traced anew each time
        return within(lambda: jitted.lower(X).compile().as_text() or "")

    assert "Stack/blocks.0/up/" in text(under_ranges)
    assert "blocks.0" not in text(lambda run: run())


def test_results_are_the_same() -> None:
    stack = Stack(nnx.Rngs(0))
    plain = stack(X)
    assert (under_ranges(lambda: stack(X)) == plain).all()
