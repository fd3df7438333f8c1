# SPDX-License-Identifier: Apache-2.0
"""The batches of a training, checked at every step in both frameworks."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import numcheck_jax
import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.diagnose import Finding

    Batches = list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]
    Trained = Callable[..., tuple[tuple[Finding, ...], dict[str, Any]]]

CLASSES = 5


def healthy(steps: int, seed: int = 0) -> Batches:
    random = np.random.default_rng(seed)
    return [
        (
            random.normal(size=(8, 4)).astype(np.float32),
            random.integers(0, CLASSES, 8).astype(np.int32),
        )
        for _ in range(steps)
    ]


def in_torch(batches: Batches, *, check_data: bool = True) -> Any:
    torch.manual_seed(0)
    model = nn.Linear(4, CLASSES)
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    watched: Any = numcheck_torch.instrument(
        model, optimizer=sgd, on_error="record", check_data=check_data
    )
    for x, y in batches:
        sgd.zero_grad()
        loss = nn.functional.cross_entropy(
            watched(torch.from_numpy(x)), torch.from_numpy(y).long()
        )
        loss.backward()
        sgd.step()
    watched.numcheck.close()
    return watched.numcheck


@jax.jit
def jax_step(w: Any, x: Any, y: Any) -> Any:
    def loss_of(w: Any) -> Any:
        chosen = jax.nn.one_hot(y, CLASSES)  # zero everywhere for a label past the last
        return -(jax.nn.log_softmax(x @ w) * chosen).sum(1).mean()

    loss, gradient = jax.value_and_grad(loss_of)(w)
    return w - 0.01 * gradient, loss


def in_jax(batches: Batches, *, check_data: bool = True) -> Any:
    watched = numcheck_jax.instrument(
        jax_step, on_error="record", check_data=check_data
    )
    w = jnp.zeros((4, CLASSES))
    for x, y in batches:
        w, _ = watched(w, jnp.asarray(x), jnp.asarray(y))
    watched.numcheck.close()
    return watched.numcheck


@pytest.fixture(params=[in_torch, in_jax], ids=["torch", "jax"])
def trained(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_healthy_batches_are_not_accused(trained: Any) -> None:
    assert trained(healthy(20)).findings == ()


def test_the_number_of_classes_is_known_from_the_loss(trained: Any) -> None:
    (incident,) = trained(healthy(1)).incidents
    assert incident.settings["classes"] == CLASSES


def test_a_label_past_the_classes_is_named_where_the_loss_hides_it() -> None:
    batches = healthy(4)
    batches[2][1][3] = CLASSES
    monitor = in_jax(batches)
    (finding,) = monitor.findings
    assert (finding.id, finding.severity, finding.step) == ("N022", "warning", 2)
    assert finding.fields["label"] == CLASSES
    assert str(finding.fields["place"]).endswith("[3]")
    assert "[3] is 5" in monitor.report(lang="en")


def test_an_outlier_is_named_with_its_step_row_and_column(trained: Any) -> None:
    batches = healthy(9)
    batches[5][0][2, 1] = 5000.0
    (finding,) = trained(batches).findings
    assert (finding.id, finding.step, finding.kind) == ("N014", 5, "data")
    assert str(finding.fields["place"]).endswith("[2, 1]")


def test_a_column_constant_over_all_batches_is_found(trained: Any) -> None:
    batches = healthy(9)
    for x, _ in batches:
        x[:, 3] = 7.0
    assert [f.id for f in trained(batches).findings] == ["N013"]


def test_nothing_is_checked_unless_asked_for(trained: Any) -> None:
    batches = healthy(9)
    batches[5][0][2, 1] = 5000.0
    assert trained(batches, check_data=False).findings == ()


def test_what_was_told_is_not_told_again(trained: Any) -> None:
    batches = healthy(20)
    for x, _ in batches:
        x[0, 0] = 5000.0
    assert len(trained(batches).findings) == 1


def test_a_finding_of_the_data_warns_and_does_not_stop() -> None:
    model = nn.Linear(2, 1)
    watched: Any = numcheck_torch.instrument(model, check_data=True, audit_first=False)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(9):
            watched(torch.tensor([[1.0, 9.0], [2.0, 9.0]])).sum().backward()
            sgd.step()
        watched.numcheck.close()
    assert any("N013" in str(w.message) for w in told)
