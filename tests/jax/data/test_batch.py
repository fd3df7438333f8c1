# SPDX-License-Identifier: Apache-2.0
"""A finding whose cause is the data names row and column of the batch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck_jax
from numcheck import NonFiniteError


def loss(params: Any, batch: Any) -> Any:
    logits = batch["x"] @ params
    picked = jnp.take_along_axis(
        jax.nn.log_softmax(logits), batch["labels"][:, None], 1
    )
    return -picked.mean()


def evidence(x: Any, labels: Any) -> list[tuple[str, Any]]:
    """Run one step; return what the finding says about the batch."""
    step = numcheck_jax.instrument(jax.jit(jax.value_and_grad(loss)), lag=0)
    params = jnp.ones((x.shape[1], 3)) / 2
    with pytest.raises(NonFiniteError) as caught:
        step(params, {"x": jnp.asarray(x), "labels": jnp.asarray(labels)})
    return [
        (e.key, e.fields["place"])
        for e in caught.value.finding.evidence
        if e.key.startswith("data_")
    ]


def features() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


def test_nan_in_the_batch_is_told_with_row_and_column() -> None:
    x = features()
    x[6, 3] = np.nan
    assert evidence(x, np.zeros(8, np.int32)) == [("data_N011", "batch['x'][6, 3]")]


def test_a_label_past_the_classes_is_told_with_its_row() -> None:
    labels = np.array([0, 1, 2, 0, 3, 1, 2, 0], np.int32)
    said = evidence(features(), labels)
    assert {key for key, _ in said} >= {"data_largest_index"}
    assert {place for _, place in said} == {"batch['labels'][4]"}
