# SPDX-License-Identifier: Apache-2.0
"""Which setting a training lacked is told from the training itself."""

from __future__ import annotations

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
    from collections.abc import Callable, Iterable

    Loss = Callable[[torch.Tensor], torch.Tensor]

WIDTH = 8


def batches(steps: int, width: int = WIDTH) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    return [torch.randn(16, width, generator=random) for _ in range(steps)]


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[torch.Tensor],
    loss_of: Loss,
    *,
    clip: float | None = None,
    warm_up: int = 0,
    **options: Any,
) -> Any:
    """Train until the loss is no longer finite; return the monitor."""
    watched: Any = numcheck_torch.instrument(
        model, optimizer, **{"on_error": "record", **options}
    )
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (warm_up + 1))
    )
    for x in batches:
        optimizer.zero_grad()
        loss = loss_of(watched(x))
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        rate.step()
        if not torch.isfinite(loss):
            break
    watched.numcheck.close()
    return watched.numcheck


def rules(monitor: Any) -> list[tuple[str, str]]:
    """Return class and rule of the cause of each error."""
    errors = [f for f in monitor.findings if f.severity == "error"]
    return [(f.cause.cls, f.cause.rule) for f in errors]


def ids(monitor: Any) -> list[str]:
    return [f.id for f in monitor.findings]


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(WIDTH, WIDTH)


def mean_square(y: torch.Tensor) -> torch.Tensor:
    return y.square().mean()


def descended(rate: float, steps: int = 60) -> Any:
    model = linear()
    sgd = torch.optim.SGD(model.parameters(), lr=rate)
    return train(model, sgd, batches(steps), mean_square)


def test_a_learning_rate_beyond_what_is_stable_is_named_and_measured() -> None:
    monitor = descended(30.0)
    assert rules(monitor) == [("dynamics", "N759")]
    (warning,) = [f for f in monitor.findings if f.id == "N711"]
    assert warning.cause is not None
    assert warning.cause.rule == "N759"
    seen = {e.key: e.fields for e in monitor.findings[0].evidence}
    assert seen["learning_rate"]["rate"] == 30.0
    # The update of plain gradient descent is the rate times the gradient.
    model: Any = linear()
    mean_square(model(batches(1)[0])).backward()  # type: ignore[no-untyped-call]
    weight = model.weight.detach()
    expected = float(30.0 * model.weight.grad.norm() / weight.norm())
    assert seen["update_ratio"]["ratio"] == pytest.approx(expected, rel=1e-3)


def test_a_stable_learning_rate_is_no_finding() -> None:
    assert ids(descended(0.1)) == []


def in_jax(rate: float, steps: int) -> Any:
    @jax.jit
    def step(w: Any, x: Any) -> tuple[Any, Any]:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        return w - rate * gradient, loss

    watched = numcheck_jax.instrument(step, on_error="record")
    w = jnp.ones((WIDTH, WIDTH)) / WIDTH
    for x in batches(steps):
        w, loss = watched(w, jnp.asarray(x.numpy()))
        if not np.isfinite(loss):
            break
    watched.numcheck.close()
    return watched.numcheck


def test_a_jax_step_with_too_high_a_rate_is_named_as_well() -> None:
    assert rules(in_jax(30.0, 60))[0] == ("dynamics", "N759")
    assert ids(in_jax(0.1, 20)) == []


def fourth_power(y: torch.Tensor) -> torch.Tensor:
    return y.pow(4).mean()


def with_a_wild_batch(clip: float | None) -> Any:
    model, given = linear(), batches(20)
    given[12] = 1e4 * given[12]
    sgd = torch.optim.SGD(model.parameters(), lr=0.05)
    return train(model, sgd, given, fourth_power, clip=clip, audit_first=False)


def test_one_wild_gradient_without_clipping_is_named_with_its_step() -> None:
    monitor = with_a_wild_batch(clip=None)
    assert rules(monitor) == [("dynamics", "N761")]
    (found,) = monitor.findings
    (seen,) = [e for e in found.evidence if e.key == "gradient_jumped"]
    assert (found.step, seen.fields["step"]) == (13, 12)


def test_the_same_batch_does_no_harm_to_clipped_gradients() -> None:
    assert ids(with_a_wild_batch(clip=1.0)) == []


class NearOptimum(nn.Module):
    """A regression whose weights are all but right when it begins."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((1, 32), 0.11))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.w.T).squeeze(-1) - 0.1 * x.sum(-1)


def began(warm_up: int) -> list[str]:
    model = NearOptimum()
    adam = torch.optim.Adam(model.parameters(), lr=0.05)
    return ids(
        train(
            model, adam, batches(30, 32), lambda y: y.square().mean() + 0.01,
            warm_up=warm_up, every=5,
        )
    )  # fmt: skip


def test_first_updates_that_throw_the_loss_up_are_noted_once() -> None:
    assert began(warm_up=0) == ["N719"]


def test_a_rate_that_is_warmed_up_is_not() -> None:
    assert began(warm_up=40) == []


class Embeds(nn.Module):
    """Rows whose sum is to be large, which no row ever is enough."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tokens(x).mean()  # type: ignore[no-any-return]


def embedded(loss_of: Loss) -> Any:
    model = Embeds()
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    return train(model, adam, [torch.arange(6)] * 60, loss_of, every=10)


def test_an_embedding_that_grows_is_noted_with_what_it_was_and_is() -> None:
    monitor = embedded(lambda y: 100 - y)
    (found,) = [f for f in monitor.findings if f.id == "N717"]
    assert (found.severity, found.site.op) == ("note", "parameter:tokens.weight")
    first = float(Embeds().tokens.weight.detach().norm())
    assert found.fields["first"] == pytest.approx(first)


def test_an_embedding_that_settles_is_not() -> None:
    assert "N717" not in ids(embedded(lambda y: (1 - y).square()))


def stacked(layers: int, *, normalises: bool) -> Any:
    """Audit one step of a residual stack of well-scaled layers."""
    random = np.random.default_rng(0)
    made = random.normal(size=(layers, WIDTH, WIDTH)) / WIDTH**0.5
    weights = [jnp.asarray(w, jnp.float32) for w in made]

    def loss_of(weights: Any, x: Any) -> Any:
        for w in weights:
            y = x
            if normalises:
                y = x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)
            x = x + y @ w
        return jnp.mean(x**2)

    def step(weights: Any, x: Any) -> tuple[Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(weights, x)
        moved = [w - 1e-6 * g for w, g in zip(weights, gradients, strict=True)]
        return moved, loss

    watched = numcheck_jax.instrument(step, on_error="record")
    watched(weights, jnp.asarray(batches(1)[0].numpy()))
    watched.numcheck.close()
    return watched.numcheck


def test_residual_layers_without_a_normalisation_overflow_by_their_number() -> None:
    assert rules(stacked(150, normalises=False))[0] == ("dynamics", "N762")


def test_the_same_layers_normalised_do_not() -> None:
    assert ids(stacked(150, normalises=True)) == []
