# SPDX-License-Identifier: Apache-2.0
"""Steps on four devices, laid out by the compiler or by the types of their arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import numcheck_jax

DEVICES = np.array(jax.devices()[:4])
ROWS = PartitionSpec("d")
X = np.ones((8, 4), np.float32)


def forward(w: Any, x: Any) -> Any:
    return jnp.mean(jnp.log(x @ w))


def backward(w: Any, x: Any) -> Any:
    return jnp.mean(jnp.sqrt(x @ w))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("level", ["watch", "trace"])
@pytest.mark.parametrize(
    ("loss", "op", "phase"),
    [(forward, "log", "forward"), (backward, "div", "backward")],
)
def test_fault_on_one_of_four_devices_is_named(
    kind: Any, level: Any, loss: Any, op: str, phase: str
) -> None:
    mesh = Mesh(DEVICES, ("d",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        w = jax.device_put(jnp.full(4, 0.5), NamedSharding(mesh, PartitionSpec()))
        step = numcheck_jax.instrument(
            jax.jit(jax.value_and_grad(loss)), on_error="record", level=level
        )
        plain = jax.jit(jax.value_and_grad(loss))
        for k in range(2):
            x = X.copy()
            if k:
                x[5] = 0.0
            batch = jax.device_put(x, NamedSharding(mesh, ROWS))
            got, wanted = step(w, batch), plain(w, batch)
            for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
                assert a.sharding == b.sharding
                if level == "watch":
                    assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        step.numcheck.close()
    finding = step.numcheck.findings[0]
    assert (finding.site.op, finding.phase, finding.step) == (op, phase, 1)
    assert finding.site.source is not None
    assert finding.site.source.text.startswith("return jnp.mean(")
    assert [e for e in step.numcheck.events if e.name == "fault"] == []


@pytest.mark.parametrize("donated", [False, True])
def test_pytree_of_any_kind_names_the_bad_argument(donated: bool) -> None:
    def update(params: Any, batch: Any) -> Any:
        total = sum(jnp.sum(b["w"]) for b in params["blocks"]) * batch["x"].sum()
        return jax.tree.map(lambda w: 0.5 * w, params), total

    blocks = [{"w": jnp.ones(3)}, {"w": jnp.ones(3).at[1].set(jnp.nan)}]
    step = numcheck_jax.instrument(
        jax.jit(update, donate_argnames="params" if donated else None),
        on_error="record",
        audit_first=True,
    )
    step({"blocks": blocks}, batch={"x": jnp.ones(2)})
    step.numcheck.close()
    (finding,) = step.numcheck.findings
    assert "params['blocks'][1]['w']" in finding.site.op
