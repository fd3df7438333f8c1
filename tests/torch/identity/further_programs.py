# SPDX-License-Identifier: Apache-2.0
"""More training programs, of less common parts."""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils.checkpoint import checkpoint

from tests.torch.identity.programs import (
    BATCH,
    Adversaries,
    Program,
    batch,
    labels,
    mlp,
    simple,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Reentrant(nn.Module):
    """Recomputes by the older kind of checkpoint, which enters the engine again."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.middle = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Tanh())
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = checkpoint(self.middle, self.first(x), use_reentrant=True)
        return self.last(h)


class DropsLayers(nn.Module):
    """Decides by Python's and NumPy's generators what to compute."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(6))
        self.last = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if random.random() < 0.5:
                x = torch.tanh(layer(x)) * float(np.random.rand())  # noqa: NPY002 - the global one
        return self.last(x)


class WithLoss(nn.Module):
    """Returns a dictionary with the loss in it, as language models do."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.memory = nn.LSTM(16, 16, batch_first=True)
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(
        self, ids: torch.Tensor, target: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        logits = self.head(self.memory(self.tokens(ids))[0])
        if target is None:
            return {"logits": logits}
        loss = fn.cross_entropy(logits.flatten(0, 1), target.flatten())
        return {"loss": loss, "logits": logits}


def reentrant() -> Program:
    return simple(
        Reentrant(), lambda m, i: fn.cross_entropy(m(batch(i, 5)), labels(i, 3))
    )


def drops_layers() -> Program:
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - the global one
    return simple(
        DropsLayers(), lambda m, i: fn.cross_entropy(m(batch(i, 5)), labels(i, 3))
    )


def tied_language_model() -> Program:
    return simple(
        WithLoss(),
        lambda m, i: m(labels(i, 11, 7), target=labels(i + 9, 11, 7))["loss"],
    )


def parametrised() -> Program:
    """Weights computed from others, with buffers that each call changes."""
    model = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(5, 8)),
        nn.Tanh(),
        nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)),
    )
    return simple(model, lambda m, i: fn.cross_entropy(m(batch(i, 5)), labels(i, 3)))


def adversarial_in_turn() -> Program:
    """Each of two optimizers has a forward and a backward of its own."""
    model = Adversaries()
    critic = torch.optim.SGD(model.critic.parameters(), lr=1e-2)
    generator = torch.optim.Adam(model.generator.parameters(), lr=1e-2)

    def compute(m: nn.Module, i: int) -> torch.Tensor:
        critic.zero_grad()
        fake, real = m(batch(i, 4), batch(i, 5))
        (fn.softplus(fake).mean() + fn.softplus(-real).mean()).backward()
        critic.step()
        generator.zero_grad()
        critic.zero_grad()
        loss = fn.softplus(-m(batch(i, 4), batch(i, 5))[0]).mean()
        loss.backward()
        return loss.detach()

    return Program(model, compute, generator.step, [critic, generator])


def hook_on_accumulation() -> Program:
    """The user counts gradients as they are accumulated, and doubles one of them."""
    model = mlp()
    node = model[0].weight.expand_as(model[0].weight).grad_fn.next_functions[0][0]
    node.register_prehook(lambda grads: tuple(2 * g for g in grads))
    model.kept_alive = node  # type: ignore[assignment]
    return simple(model, lambda m, i: fn.cross_entropy(m(batch(i, 5)), labels(i, 3)))


def updates_in_the_backward() -> Program:
    """Each parameter is updated as soon as its gradient is there."""
    model = mlp()
    own = {p: torch.optim.SGD([p], lr=0.05, momentum=0.9) for p in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        own[parameter].step()
        own[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    def compute(m: nn.Module, i: int) -> torch.Tensor:
        loss = fn.cross_entropy(m(batch(i, 5)), labels(i, 3))
        loss.backward()
        return loss.detach()

    return Program(model, compute, lambda: None, [*own.values()])


def evaluated_in_inference_mode() -> Program:
    program = simple(mlp(), lambda m, i: fn.cross_entropy(m(batch(i, 5)), labels(i, 3)))
    compute = program.compute

    def with_evaluation(m: nn.Module, i: int) -> torch.Tensor:
        with torch.inference_mode():
            m(batch(i + 50, 5))
        return compute(m, i)

    program.compute = with_evaluation
    return program


def parts_called_alone() -> Program:
    """The loop calls the parts of the model, never the model."""
    model = nn.ModuleDict({"encoder": mlp(5, 6), "head": mlp(6, 3)})

    def loss(m: nn.Module, i: int) -> torch.Tensor:
        hidden = m["encoder"](batch(i, 5))
        return fn.cross_entropy(m["head"](hidden), labels(i, 3))

    return simple(model, loss)


def weighted_by_a_generator(*, is_hidden: bool = False) -> Program:
    """Generators of the user's own draw in the model and in the loss."""
    own = torch.Generator().manual_seed(4)

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(5, 3)
            if not is_hidden:
                self.noise = torch.Generator().manual_seed(6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            noise = own if is_hidden else self.noise
            return self.layer(x + torch.randn(x.shape, generator=noise))

    return simple(
        Noisy(),
        lambda m, i: (
            fn.cross_entropy(m(batch(i, 5)), labels(i, 3), reduction="none")
            * torch.rand(BATCH, generator=own)
        ).mean(),
    )


class Leaky(torch.autograd.Function):
    """A function whose gradient the user wrote."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x > 0, x, x * slope)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, grad, grad * ctx.slope), None


def own_function() -> Program:
    return simple(
        mlp(),
        lambda m, i: fn.mse_loss(Leaky.apply(m(batch(i, 5)), 0.1), batch(i, 3)),
    )


class Policy(nn.Module):
    """Returns what to draw from, not a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.distributions.Distribution:
        return torch.distributions.Categorical(logits=self.layer(x))


def policy() -> Program:
    return simple(Policy(), lambda m, i: -m(batch(i, 5)).log_prob(labels(i, 3)).mean())


class Observer(nn.Module):
    """Gives its buffer a shape at the first call, as quantisers do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.register_buffer("seen", torch.zeros(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(x)
        if not self.seen.numel():
            self.seen.resize_(out.shape[1]).zero_()
        self.seen.copy_(torch.maximum(self.seen, out.detach().amax(0)))
        return out


class Picture(torch.Tensor):
    """A tensor with a name of its own."""


def pictures() -> Program:
    return simple(
        mlp(), lambda m, i: m(batch(i, 5).as_subclass(Picture)).square().mean()
    )


def scripted() -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model = torch.jit.script(nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3)))
    return simple(model, lambda m, i: fn.cross_entropy(m(batch(i, 5)), labels(i, 3)))


FURTHER: dict[str, Callable[[], Program]] = {
    "autograd function of one's own": own_function,
    "buffer that is resized": lambda: simple(
        Observer(), lambda m, i: m(batch(i, 5)).square().mean()
    ),
    "images of a class of their own": pictures,
    "policy that returns a distribution": policy,
    "scripted module": scripted,
    "re-entrant checkpoint": reentrant,
    "Python's and NumPy's generators": drops_layers,
    "tied language model": tied_language_model,
    "parametrised weights": parametrised,
    "adversaries in turn": adversarial_in_turn,
    "hook on gradient accumulation": hook_on_accumulation,
    "updates in the backward": updates_in_the_backward,
    "inference between steps": evaluated_in_inference_mode,
    "parts called alone": parts_called_alone,
    "a generator of the user's own": weighted_by_a_generator,
    "a generator in a closure": lambda: weighted_by_a_generator(is_hidden=True),
}
