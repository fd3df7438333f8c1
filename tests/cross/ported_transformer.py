# SPDX-License-Identifier: Apache-2.0
"""The same small transformer in PyTorch and in Flax, with the same weights."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import linen
from torch import nn
from torch.nn import functional

import numcheck_jax
import numcheck_torch

if TYPE_CHECKING:
    from numcheck.record import Trace

WIDTH, HEADS, LENGTH, BATCH, VOCABULARY, DEPTH = 32, 4, 8, 4, 17, 2


@dataclasses.dataclass(frozen=True)
class Difference:
    """What one layer of one of the two ports does differently; nothing by default."""

    epsilon: float = 1e-5
    causal: bool = True
    approximate_gelu: bool = False
    scaled: bool = True
    transpose_up: bool = False


SAME = Difference()
Changes = tuple[Difference, ...]
"""One for each layer."""


class TorchBlock(nn.Module):
    def __init__(self, change: Difference) -> None:
        super().__init__()
        self.change = change
        self.norm1 = nn.LayerNorm(WIDTH, eps=change.epsilon)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-5)
        self.up = nn.Linear(WIDTH, WIDTH)
        self.act = nn.GELU("tanh" if change.approximate_gelu else "none")
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (
            y.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for y in (q, k, v)
        )
        scores = q @ k.transpose(-1, -2)
        if self.change.scaled:
            scores = scores / (WIDTH // HEADS) ** 0.5
        if self.change.causal:
            mask = torch.ones(t, t, dtype=torch.bool).tril()
            scores = scores.masked_fill(~mask, -1e9)
        seen = torch.softmax(scores, -1) @ v
        x = x + self.proj(seen.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.down(self.act(self.up(self.norm2(x))))


class TorchNet(nn.Module):
    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self.tok = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(map(TorchBlock, changes))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-5)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tok(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Gelu(linen.Module):
    approximate: bool

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return linen.gelu(x, approximate=self.approximate)


class FlaxBlock(linen.Module):
    change: Difference

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        change = self.change
        b, t, _ = x.shape
        h = linen.LayerNorm(epsilon=change.epsilon, name="norm1")(x)
        q, k, v = (
            linen.Dense(WIDTH, name=n)(h)
            .reshape(b, t, HEADS, WIDTH // HEADS)
            .transpose(0, 2, 1, 3)
            for n in ("q", "k", "v")
        )
        scores = q @ k.swapaxes(-1, -2)
        if change.scaled:
            scores = scores / (WIDTH // HEADS) ** 0.5
        if change.causal:
            scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
        seen = (jax.nn.softmax(scores, -1) @ v).transpose(0, 2, 1, 3)
        x = x + linen.Dense(WIDTH, name="proj")(seen.reshape(b, t, WIDTH))
        h = linen.LayerNorm(epsilon=1e-5, name="norm2")(x)
        h = Gelu(change.approximate_gelu, name="act")(linen.Dense(WIDTH, name="up")(h))
        return x + linen.Dense(WIDTH, name="down")(h)


class FlaxNet(linen.Module):
    changes: Changes

    @linen.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = linen.Embed(VOCABULARY, WIDTH, name="tok")(tokens)
        for i, change in enumerate(self.changes):
            x = FlaxBlock(change, name=f"blocks_{i}")(x)
        x = linen.LayerNorm(epsilon=1e-5, name="norm")(x)
        return linen.Dense(VOCABULARY, name="head")(x)


def weights(changes: Changes, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns random weights by PyTorch's names; a square one may lie transposed."""
    rng = np.random.default_rng(seed)
    held = {
        name: (rng.normal(size=tuple(p.shape)) * 0.3 + ("norm" in name)).astype(
            np.float32
        )
        for name, p in TorchNet((SAME,) * DEPTH).named_parameters()
    }
    for i, change in enumerate(changes):
        if change.transpose_up:
            held[f"blocks.{i}.up.weight"] = held[f"blocks.{i}.up.weight"].T.copy()
    return held


def flax_params(held: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns weights by Flax's names and layouts."""
    params: dict[str, Any] = {}
    for name, value in held.items():
        *path, module, kind = name.replace("blocks.", "blocks_").split(".")
        parts = {module: value}
        if module == "qkv":
            parts = dict(zip("qkv", np.split(value, 3), strict=True))
        home = params
        for part in path:
            home = home.setdefault(part, {})
        for part, piece in parts.items():
            known = {"norm": "scale", "tok": "embedding"}
            leaf = known.get(part.rstrip("12"), "kernel") if kind == "weight" else kind
            turned = piece.T if leaf == "kernel" else piece
            home.setdefault(part, {})[leaf] = jnp.asarray(turned)
    return {"params": params}


def batch(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(seed).integers(0, VOCABULARY, (BATCH, LENGTH + 1))
    return tokens[:, :-1], tokens[:, 1:]


def torch_trace(changes: Changes = (SAME,) * DEPTH) -> Trace:
    """Returns the trace of one training step in PyTorch."""
    net = TorchNet(changes)
    net.load_state_dict({n: torch.from_numpy(w) for n, w in weights(changes).items()})
    tokens, targets = map(torch.from_numpy, batch())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    watched = numcheck_torch.instrument(net, optimizer, level="trace")
    with watched.numcheck:
        logits = watched(tokens)
        functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
    trace = watched.numcheck.trace
    assert trace is not None
    return trace


def flax_trace(changes: Changes = (SAME,) * DEPTH) -> Trace:
    """Returns the trace of the same step in Flax."""
    net = FlaxNet(changes)

    def loss(params: Any, tokens: jax.Array, targets: jax.Array) -> jax.Array:
        logged = jax.nn.log_softmax(net.apply(params, tokens))
        return -jnp.take_along_axis(logged, targets[..., None], -1).mean()

    step = numcheck_jax.instrument(jax.jit(jax.value_and_grad(loss)), level="trace")
    with step.numcheck:
        step(flax_params(weights(changes)), *map(jnp.asarray, batch()))
    trace = step.numcheck.trace
    assert trace is not None
    return trace
