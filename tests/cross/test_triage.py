# SPDX-License-Identifier: Apache-2.0
"""The ten questions, asked about small trainings of both frameworks.

Each is asked twice: of a training where the answer is yes, and of one where it is no.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import nn

import numcheck_jax
import numcheck_torch
from numcheck.report.past_run import content_of_run
from numcheck.report.triage import answers, triage_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numcheck.diagnose.triage import Answer

    Ask = Callable[..., Answer]

WIDTH, ROWS = 16, 8


@dataclasses.dataclass(frozen=True)
class Training:
    """A stack of four linear layers with relu, trained for a few steps.

    Attributes:
        dtype: of weights and batch.
        gain: standard deviation of the weights times the square root of the width.
        scale: of the batch.
        bad_step: step whose batch holds an Inf; None for none.
        normalised: whether the second layer's input is normalised.
        shift: by which the norm's weight multiplies.
        clip: norm that gradients are clipped to.
        dead: whether the last layer is zero, so that no gradient reaches the others.
        rate: learning rate.
        steps: how many.
        loss_scale: factor of the loss.
        level: at which the training is watched.
    """

    dtype: str = "float32"
    gain: float = 1.4
    scale: float = 1.0
    bad_step: int | None = None
    normalised: bool = True
    shift: float = 1.0
    clip: float | None = None
    dead: bool = False
    rate: float = 1e-3
    steps: int = 2
    loss_scale: float = 1.0
    level: Literal["watch", "trace"] = "watch"

    def weights(self) -> list[np.ndarray[Any, Any]]:
        random = np.random.default_rng(0)
        sizes = [*((WIDTH, WIDTH) for _ in range(4)), (WIDTH, 1)]
        made = [random.normal(size=s) * self.gain / WIDTH**0.5 for s in sizes]
        if self.dead:
            made[-1] = made[-1] * 0
        return made

    def batches(self) -> list[np.ndarray[Any, Any]]:
        random = np.random.default_rng(1)
        found = [random.normal(size=(ROWS, WIDTH)) * self.scale] * self.steps
        if self.bad_step is not None:
            bad = found[0].copy()
            bad[1, 2] = np.inf
            found[self.bad_step] = bad
        return found


class Stack(nn.Module):
    def __init__(self, plan: Training) -> None:
        super().__init__()
        self.plan = plan
        self.w = nn.ParameterList(torch.tensor(w) for w in plan.weights())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for place, w in enumerate([*self.w][:-1]):
            x = torch.relu(x @ w)
            if self.plan.normalised and place == 0:
                x = nn.functional.layer_norm(x, (WIDTH,)) * self.plan.shift
        return x @ self.w[-1]


def in_torch(plan: Training, run: Path) -> None:
    dtype = getattr(torch, plan.dtype)
    model = Stack(plan).to(dtype)
    sgd = torch.optim.SGD(model.parameters(), lr=plan.rate)
    watched: Any = numcheck_torch.instrument(
        model, sgd, on_error="record", run=run, level=plan.level
    )
    for x in plan.batches():
        sgd.zero_grad()
        loss = watched(torch.tensor(x, dtype=dtype)).float().square().mean()
        (loss * plan.loss_scale).backward()
        if plan.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        sgd.step()
    watched.numcheck.close()


def in_jax(plan: Training, run: Path) -> None:
    dtype = jnp.dtype(plan.dtype)
    sgd = optax.sgd(plan.rate)
    if plan.clip is not None:
        sgd = optax.chain(optax.clip_by_global_norm(plan.clip), sgd)

    def loss_of(weights: Any, x: Any) -> Any:
        for place, w in enumerate(weights[:-1]):
            x = jax.nn.relu(x @ w)
            if plan.normalised and place == 0:
                x = jax.nn.standardize(x, epsilon=1e-5) * plan.shift
        loss = ((x @ weights[-1]).astype(jnp.float32) ** 2).mean()
        return loss * plan.loss_scale

    @jax.jit
    def step(weights: Any, state: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, x)
        updates, state = sgd.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    watched = numcheck_jax.instrument(
        step, on_error="record", run=run, level=plan.level
    )
    weights = [jnp.asarray(w, dtype) for w in plan.weights()]
    state = sgd.init(weights)
    for x in plan.batches():
        weights, state, _ = watched(weights, state, jnp.asarray(x, dtype))
    watched.numcheck.close()


@pytest.fixture(scope="module", params=[in_torch, in_jax], ids=["torch", "jax"])
def ask(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Ask:
    """Train, and return what a question is answered with from the run folder."""
    known: dict[Training, tuple[Answer, ...]] = {}

    def asked(question: str, **changed: Any) -> Answer:
        plan = Training(**changed)
        if plan not in known:
            run = tmp_path_factory.mktemp("triage") / "run"
            request.param(plan, run)
            content = content_of_run(run)
            known[plan] = answers(content)
            assert all(triage_text(content, lang) for lang in ("en", "zh"))
        return next(a for a in known[plan] if a.question == question)

    return asked


def test_1_the_first_step_is_told_from_a_later_one(ask: Ask) -> None:
    first = ask("first_step", bad_step=0)
    assert (first.verdict, first.fields["step"]) == ("yes", 0)
    later = ask("first_step", bad_step=1)
    assert (later.verdict, later.fields["step"]) == ("no", 1)
    assert ask("first_step").text == "unbroken"


def test_2_the_batch_is_finite_and_of_ordinary_scale_or_not(ask: Ask) -> None:
    ordinary = ask("input_scale")
    assert ordinary.verdict == "yes"
    assert float(ordinary.fields["std"]) == pytest.approx(1.0, abs=0.2)
    assert ask("input_scale", scale=300.0).verdict == "no"
    bad = ask("input_scale", bad_step=1)
    assert (bad.verdict, bad.fields["inf"]) == ("no", 1)


def test_3_an_activation_near_the_end_of_its_format_is_named(ask: Ask) -> None:
    assert ask("activations", dtype="float16").verdict == "no"
    tight = ask("activations", dtype="float16", shift=2e4, gain=1.0, steps=1)
    assert tight.verdict == "yes"
    assert float(tight.fields["bits"]) < 2


def test_4_gradients_that_vanish_in_a_layer_are_named(ask: Ask) -> None:
    assert ask("gradients").verdict == "no"
    vanished = ask("gradients", dead=True)
    assert (vanished.verdict, vanished.fields["smallest"]) == ("yes", 0.0)


def test_4_a_broken_batch_is_no_exploding_gradient(ask: Ask) -> None:
    found = ask("gradients", bad_step=1)
    assert (found.verdict, found.text) == ("no", "no_before")
    assert (found.fields["until"], found.fields["step"]) == (0, 1)
    assert np.isfinite(float(found.fields["largest"]))
    healthy = ask("gradients", steps=1)
    assert found.fields["largest"] == pytest.approx(healthy.fields["largest"])


def test_4_a_gradient_that_leaves_its_format_explodes(ask: Ask) -> None:
    found = ask("gradients", dtype="float16", loss_scale=2.0**26, steps=1)
    assert (found.verdict, found.text) == ("yes", "overflow")
    assert found.fields["dtype"] == "float16"


def test_5_float32_is_tried_on_a_failing_step(ask: Ask) -> None:
    half = ask("float32", dtype="float16", normalised=False, scale=3000.0, gain=4.0)
    assert (half.verdict, half.text) == ("yes", "yes_asked")
    data = ask("float32", dtype="float16", bad_step=0)
    assert (data.verdict, data.text) == ("no", "no_asked")


def test_5_a_healthy_step_was_run_beside_float32(ask: Ask) -> None:
    healthy = ask("float32", dtype="float16")
    assert (healthy.verdict, healthy.text) == ("no", "no_beside")
    assert 0 < float(healthy.fields["error"]) < 0.5


def test_7_the_operator_is_named_with_its_line(ask: Ask) -> None:
    found = ask("operator", dtype="float16", normalised=False, scale=3000.0, gain=4.0)
    assert found.verdict == "yes"
    assert "test_triage.py:" in str(found.fields["line"])
    assert ask("operator").text == "unbroken"
    assert ask("operator", bad_step=1).text == "given"


def test_8_normalisation_is_seen_and_held_against_its_scale(ask: Ask) -> None:
    works = ask("normalisation")
    assert (works.verdict, works.fields["layers"]) == ("yes", 1)
    assert float(works.fields["amax"]) < WIDTH**0.5
    without = ask("normalisation", normalised=False)
    assert (without.verdict, without.text) == ("not_applicable", "none")


def test_8_a_broken_batch_is_not_blamed_on_the_normalisation(ask: Ask) -> None:
    found = ask("normalisation", bad_step=1)
    assert (found.verdict, found.fields["step"]) == ("yes", 0)
    assert found.fields["amax"] == ask("normalisation", steps=1).fields["amax"]


def test_9_clipping_is_seen_or_the_norm_is_told(ask: Ask) -> None:
    assert ask("clipping", clip=1.0).verdict == "yes"
    unclipped = ask("clipping")
    assert unclipped.verdict == "no"
    assert 0 < float(unclipped.fields["norm"]) < 1e3


@pytest.mark.parametrize(("gain", "verdict"), [(1.4, "yes"), (20.0, "no"), (0.1, "no")])
def test_10_the_initialisation_is_held_against_growth(
    ask: Ask, gain: float, verdict: str
) -> None:
    found = ask("initialisation", gain=gain, normalised=False, steps=1)
    assert found.verdict == verdict
    # relu halves the power of what comes in: a gain of √2 keeps it.
    assert float(found.fields["gain"]) == pytest.approx(gain / 2**0.5, rel=0.6)


@pytest.mark.parametrize("question", ["input_scale", "gradients", "initialisation"])
def test_a_traced_training_answers_what_a_watched_one_does(
    ask: Ask, question: str
) -> None:
    traced, watched = (
        ask(question, level=level, steps=3, normalised=False)
        for level in ("trace", "watch")
    )
    assert traced.verdict == watched.verdict != "not_measured"


def test_3_counters_are_no_activations(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
    watched: Any = numcheck_torch.instrument(model, on_error="record", run=tmp_path)
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    x[0, 0] = torch.nan
    watched(x).square().mean().backward()
    watched.numcheck.close()
    trace = (content := content_of_run(tmp_path)).trace
    assert trace is not None
    assert any("int" in site.dtype for site in trace.sites if site.kind == "operator")
    found = next(a for a in answers(content) if a.question == "activations")
    assert found.fields["dtype"] == "float32"
