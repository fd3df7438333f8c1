# SPDX-License-Identifier: Apache-2.0
"""Training programs as people write them; each is built afresh, from a fixed seed."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH, STEPS = 6, 4


@dataclasses.dataclass
class Program:
    """A model and how one step of its training goes.

    `compute` runs forward, loss and backward and returns the loss; `update` the rest.
    """

    model: nn.Module
    compute: Callable[[nn.Module, int], torch.Tensor]
    update: Callable[[], Any]
    optimizers: list[torch.optim.Optimizer]
    called: nn.Module | None = None
    """What the loop calls, where it is not the model itself (a compiled form)."""


def batch(step: int, *shape: int) -> torch.Tensor:
    return torch.randn(BATCH, *shape, generator=torch.Generator().manual_seed(step))


def labels(step: int, classes: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 + step)
    return torch.randint(0, classes, (BATCH, *shape), generator=generator)


def simple(
    model: nn.Module,
    loss: Callable[[nn.Module, int], torch.Tensor],
    optimizer: torch.optim.Optimizer | None = None,
) -> Program:
    """A program of the ordinary form: zero, forward, loss, backward, step."""
    opt = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)

    def compute(m: nn.Module, step: int) -> torch.Tensor:
        opt.zero_grad()
        value = loss(m, step)
        value.backward()
        return value.detach()

    return Program(model, compute, opt.step, [opt])


# --- models ---


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = fn.relu(self.norm(self.first(x))).mean((2, 3))
        return self.last(self.drop(x))


class Transformer(nn.Module):
    def __init__(self, *, recompute: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
            for _ in range(2)
        )
        self.head, self.recompute = nn.Linear(16, 11), recompute

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = (
                checkpoint(layer, x, use_reentrant=False)
                if self.recompute
                else layer(x)
            )
        return self.head(x)


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]
    name: str = "answer"


class Structured(nn.Module):
    """Takes keyword arguments and nested input, returns a dataclass."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)
        self.a.bias.requires_grad_(False)

    def forward(self, features: dict[str, torch.Tensor], *, scale: float) -> Answer:
        hidden = torch.tanh(self.a(features["x"]) + features["y"])
        return Answer(self.b(hidden) * scale, (hidden,))


class Recursive(nn.Module):
    """Calls itself, and shares one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)
        self.alias = self.layer

    def forward(self, x: torch.Tensor, depth: int = 2) -> torch.Tensor:
        x = torch.tanh(self.layer(x))
        return self(x, depth - 1) if depth else self.alias(x)


def mlp(inputs: int = 5, outputs: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))


# --- programs ---


def mlp_classifies() -> Program:
    return simple(mlp(), lambda m, i: fn.cross_entropy(m(batch(i, 5)), labels(i, 3)))


def cnn_with_batch_norm() -> Program:
    model = Convolutional()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return simple(
        model, lambda m, i: fn.cross_entropy(m(batch(i, 2, 6, 6)), labels(i, 3)), sgd
    )


def transformer(*, recompute: bool = False) -> Program:
    def loss(m: nn.Module, i: int) -> torch.Tensor:
        logits = m(labels(i, 11, 7))
        return fn.cross_entropy(logits.flatten(0, 1), labels(i + 50, 11, 7).flatten())

    return simple(Transformer(recompute=recompute), loss)


def transformer_in_bfloat16() -> Program:
    def loss(m: nn.Module, i: int) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits = m(labels(i, 11, 7))
            return fn.cross_entropy(logits.flatten(0, 1), labels(i, 11, 7).flatten())

    return simple(Transformer(), loss)


def gradient_scaler() -> Program:
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=2)

    def compute(m: nn.Module, i: int) -> torch.Tensor:
        opt.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = fn.cross_entropy(m(batch(i, 5)), labels(i, 3))
        scaler.scale(loss).backward()
        return loss.detach()

    def update() -> None:
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()

    return Program(model, compute, update, [opt])


def accumulation() -> Program:
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)

    def compute(m: nn.Module, i: int) -> torch.Tensor:
        opt.zero_grad()
        total = torch.zeros(())
        for part in range(3):
            out = m(batch(10 * i + part, 5))
            loss = fn.cross_entropy(out, labels(10 * i + part, 3)) / 3
            loss.backward()
            total += loss.detach()
        return total

    return Program(model, compute, opt.step, [opt])


def clipped() -> Program:
    program = mlp_classifies()
    step = program.update

    def update() -> None:
        nn.utils.clip_grad_norm_(program.model.parameters(), 0.1)
        step()

    program.update = update
    return program


class Adversaries(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator, self.critic = mlp(4, 5), mlp(5, 1)

    def forward(self, noise: torch.Tensor, real: torch.Tensor) -> Any:
        fake = self.generator(noise)
        return self.critic(fake), self.critic(real)


def two_optimizers() -> Program:
    model = Adversaries()
    first = torch.optim.Adam(model.generator.parameters(), lr=1e-2)
    second = torch.optim.SGD(model.critic.parameters(), lr=1e-2)

    def compute(m: nn.Module, i: int) -> torch.Tensor:
        first.zero_grad()
        second.zero_grad()
        fake, real = m(batch(i, 4), batch(i, 5))
        loss = fn.softplus(-fake).mean() + fn.softplus(-real).mean()
        loss.backward()
        return loss.detach()

    def update() -> None:
        first.step()
        second.step()

    return Program(model, compute, update, [first, second])


def gradient_penalty() -> Program:
    def loss(m: nn.Module, i: int) -> torch.Tensor:
        x = batch(i, 5).requires_grad_()
        score = m(x).square().sum()
        (slope,) = torch.autograd.grad(score, x, create_graph=True)
        return score.mean() + (slope.norm(dim=1) - 1).square().mean()

    return simple(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)), loss)


def two_losses() -> Program:
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)

    def compute(m: nn.Module, i: int) -> torch.Tensor:
        opt.zero_grad()
        out = m(batch(i, 5))
        first = fn.cross_entropy(out, labels(i, 3))
        first.backward(retain_graph=True)
        second = 0.1 * out.square().mean()
        second.backward()
        return (first + second).detach()

    return Program(model, compute, opt.step, [opt])


def siamese() -> Program:
    def loss(m: nn.Module, i: int) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            a, b = m(batch(i, 5)), m(batch(i + 7, 5))
        return fn.mse_loss(a.float(), b.float() + 1)

    return simple(mlp(), loss)


def structured() -> Program:
    def loss(m: nn.Module, i: int) -> torch.Tensor:
        answer = m({"x": batch(i, 4), "y": batch(i, 8)}, scale=2.0)
        extra = answer.hidden[0].square().mean()
        return fn.cross_entropy(answer.logits, labels(i, 3)) + 0.1 * extra

    model = Structured()
    trained = [p for p in model.parameters() if p.requires_grad]
    return simple(model, loss, torch.optim.Adam(trained, lr=1e-2))


def recursive() -> Program:
    return simple(Recursive(), lambda m, i: m(batch(i, 5)).square().mean())


def evaluation_between() -> Program:
    program = cnn_with_batch_norm()
    compute = program.compute

    def with_evaluation(m: nn.Module, i: int) -> torch.Tensor:
        m.eval()
        with torch.no_grad():
            score = m(batch(i + 90, 2, 6, 6)).mean()
        m.train()
        return compute(m, i) + 0 * score

    program.compute = with_evaluation
    return program


def written_over() -> Program:
    """The loss writes into the output and into a running average."""
    average = torch.zeros(3)

    def loss(m: nn.Module, i: int) -> torch.Tensor:
        out = m(batch(i, 5))
        out[labels(i, 2) == 0] *= 0.5
        average.mul_(0.9).add_(out.detach().mean(0))
        return (out - average).square().mean()

    return simple(mlp(), loss)


def own_modes_and_hooks() -> Program:
    """The user is in modes and has hooks of their own."""
    model = mlp()
    model[0].register_forward_hook(lambda _m, _a, out: out * 1.5)
    model.register_forward_hook(lambda _m, _a, out: out + 0.25)
    model[2].weight.register_hook(lambda g: g * 0.5)

    def loss(m: nn.Module, i: int) -> torch.Tensor:
        with torch.device("cpu"), torch.autograd.set_detect_anomaly(False):
            out = m(batch(i, 5))
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch.no_grad())
                weights = torch.ones(3)
            return fn.cross_entropy(out, labels(i, 3), weights)

    return simple(model, loss)


def second_order_closure() -> Program:
    model = mlp(5, 1)
    opt = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    now = [0]

    def closure() -> torch.Tensor:
        opt.zero_grad()
        loss = fn.mse_loss(model(batch(now[0], 5)), batch(now[0], 1))
        loss.backward()
        return loss

    def compute(m: nn.Module, i: int) -> torch.Tensor:
        now[0] = i
        return torch.zeros(())

    return Program(model, compute, lambda: opt.step(closure), [opt])


PROGRAMS: dict[str, Callable[[], Program]] = {
    "MLP": mlp_classifies,
    "CNN with BatchNorm and dropout": cnn_with_batch_norm,
    "transformer with dropout": transformer,
    "checkpointed transformer": lambda: transformer(recompute=True),
    "transformer under bfloat16 autocast": transformer_in_bfloat16,
    "float16 with GradScaler": gradient_scaler,
    "gradient accumulation": accumulation,
    "clipped gradients": clipped,
    "two optimizers": two_optimizers,
    "gradient penalty": gradient_penalty,
    "two losses, one graph": two_losses,
    "two calls, one loss": siamese,
    "dataclass output, frozen parameter": structured,
    "recursive module": recursive,
    "evaluation between steps": evaluation_between,
    "loss that writes in place": written_over,
    "user's modes and hooks": own_modes_and_hooks,
    "LBFGS closure": second_order_closure,
}


def build(name: str, programs: dict[str, Callable[[], Program]] = PROGRAMS) -> Program:
    torch.manual_seed(3)
    return programs[name]()
