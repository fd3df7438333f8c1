# SPDX-License-Identifier: Apache-2.0
"""The same transformer block in PyTorch and in Flax, with the same weights."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import linen
from torch import nn

import numcheck_jax
import numcheck_torch

if TYPE_CHECKING:
    from numcheck.record import Trace

WIDTH, HEADS, LENGTH, BATCH = 32, 4, 8, 4


@dataclasses.dataclass(frozen=True)
class Difference:
    """What one of the two ports does differently; nothing by default."""

    epsilon: float = 1e-5
    causal: bool = True
    approximate_gelu: bool = False
    scaled: bool = True
    transpose_up: bool = False


class TorchBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-5)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-5)
        self.up = nn.Linear(WIDTH, WIDTH)
        self.act = nn.GELU()
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (
            y.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for y in (q, k, v)
        )
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        seen = torch.softmax(scores.masked_fill(~mask, -1e9), -1) @ v
        x = x + self.proj(seen.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Gelu(linen.Module):
    approximate: bool

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return linen.gelu(x, approximate=self.approximate)


class FlaxBlock(linen.Module):
    difference: Difference

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        change = self.difference
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


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights by PyTorch's names."""
    rng = np.random.default_rng(seed)
    block = TorchBlock()
    return {
        name: (
            rng.normal(size=tuple(p.shape)) * 0.3 + (name.startswith("norm"))
        ).astype(np.float32)
        for name, p in block.named_parameters()
    }


def flax_params(held: dict[str, np.ndarray], change: Difference) -> dict[str, Any]:
    """The same weights by Flax's names and layouts."""
    params: dict[str, Any] = {}
    for name, value in held.items():
        module, kind = name.split(".")
        parts = {module: value}
        if module == "qkv":
            parts = dict(zip("qkv", np.split(value, 3), strict=True))
        for part, piece in parts.items():
            norm = part.startswith("norm")
            leaf = {"bias": "bias", "weight": "scale" if norm else "kernel"}[kind]
            turned = piece.T if leaf == "kernel" else piece
            if part == "up" and leaf == "kernel" and change.transpose_up:
                turned = turned.T
            params.setdefault(part, {})[leaf] = jnp.asarray(turned)
    return {"params": params}


def batch(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)
    return x, np.roll(x, 1, axis=-1)


def torch_trace() -> Trace:
    """Trace one training step of the PyTorch block."""
    block = TorchBlock()
    block.load_state_dict({n: torch.from_numpy(w) for n, w in weights().items()})
    x, y = map(torch.from_numpy, batch())
    optimizer = torch.optim.SGD(block.parameters(), lr=0.01)
    watched = numcheck_torch.instrument(block, optimizer, level="trace")
    with watched.numcheck:
        ((watched(x) - y) ** 2).mean().backward()
        optimizer.step()
    trace = watched.numcheck.trace
    assert trace is not None
    return trace


def flax_trace(change: Difference) -> Trace:
    """Trace the same step of the Flax block, with one thing changed."""
    model = FlaxBlock(change)

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((model.apply(params, x) - y) ** 2)

    step = numcheck_jax.instrument(jax.jit(jax.value_and_grad(loss)), level="trace")
    with step.numcheck:
        step(flax_params(weights(), change), *map(jnp.asarray, batch()))
    trace = step.numcheck.trace
    assert trace is not None
    return trace
