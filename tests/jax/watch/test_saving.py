# SPDX-License-Identifier: Apache-2.0
"""Tensors that a pattern names are kept every so many steps, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck
import numcheck_jax
from numcheck.errors import ArgumentError
from numcheck.record.witness import load_tensors

if TYPE_CHECKING:
    from pathlib import Path

X = jnp.ones((3, 4))


def loss(params: Any, x: Any) -> Any:
    return jnp.mean((x @ params["w"] + params["b"]) ** 2).astype(jnp.float32)


def params(dtype: Any) -> dict[str, Any]:
    return {"w": jnp.full((4, 2), 0.5, dtype), "b": jnp.zeros(2, dtype)}


def kept(monitor: Any) -> dict[str, dict[str, Any]]:
    files = sorted(monitor.run_path.rglob("step-*.safetensors"))
    return {file.stem: load_tensors(file) for file in files}


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float8_e4m3fn])
def test_chosen_gradients_are_kept_every_nth_step(tmp_path: Path, dtype: Any) -> None:
    def wide_loss(p: Any, x: Any) -> Any:
        return loss(jax.tree.map(lambda a: a.astype(jnp.float32), p), x)

    step = numcheck.instrument(
        jax.jit(jax.value_and_grad(wide_loss)),
        audit_first=False,
        every=2,
        run=tmp_path,
        save="gradient:*w*",
    )
    with step.numcheck as monitor:
        gradients = [step(params(dtype), k * X)[1]["w"] for k in range(4)]
    found = kept(monitor)
    assert list(found) == ["step-00000000", "step-00000002"]
    for held, gradient in zip(found.values(), gradients[::2], strict=True):
        assert list(held) == ["gradient:p['w']"]
        (array,) = held.values()
        assert array.dtype == gradient.dtype
        assert array.tobytes() == np.asarray(gradient).tobytes()


def test_state_is_kept_as_it_was_before_even_where_it_is_donated(
    tmp_path: Path,
) -> None:
    def update(p: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(p, x)
        return jax.tree.map(lambda a, g: a - 0.1 * g, p, gradient), value

    step = numcheck_jax.instrument(
        jax.jit(update, donate_argnums=0), audit_first=False, run=tmp_path, save="*"
    )
    p, before, losses = params(jnp.float32), [], []
    with step.numcheck as monitor:
        for _ in range(2):
            before.append(jax.tree.map(np.asarray, p))
            p, value = step(p, X)
            losses.append(value)
    found = kept(monitor)
    assert len(found) == 2
    for held, old, value in zip(found.values(), before, losses, strict=True):
        assert set(held) == {"loss", "parameter:p['w']", "parameter:p['b']"}
        assert np.array_equal(held["parameter:p['w']"], old["w"])
        assert held["loss"] == value


def test_pattern_that_names_nothing_is_said_once(tmp_path: Path) -> None:
    step = numcheck_jax.instrument(
        jax.jit(loss), audit_first=False, run=tmp_path, save="gradient:*"
    )
    with step.numcheck as monitor:
        for _ in range(3):
            step(params(jnp.float32), X)
    assert kept(monitor) == {}
    (note,) = [e.value for e in monitor.events if e.name == "note"]
    assert note == "notice.nothing_saved"


def test_random_keys_are_left_out(tmp_path: Path) -> None:
    def drawn(key: Any, x: Any) -> Any:
        key, used = jax.random.split(key)
        return key, x.sum() * jax.random.normal(used, (5,))

    step = numcheck_jax.instrument(
        jax.jit(drawn), audit_first=False, run=tmp_path, save="*"
    )
    with step.numcheck as monitor:
        _, y = step(jax.random.key(0), X)
    (held,) = kept(monitor).values()
    assert np.array_equal(held["output:[1]"], y)


def test_without_a_run_folder_nothing_can_be_kept() -> None:
    with pytest.raises(ArgumentError, match="give run= too"):
        numcheck_jax.instrument(jax.jit(loss), save="*")
