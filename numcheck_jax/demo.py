# SPDX-License-Identifier: Apache-2.0
"""A small language model that breaks in float16, watched.

A transformer with squared-ReLU MLPs computes in float16 and trains with a learning
rate that is too high and no warm-up: its activations grow until float16 cannot hold
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training.train_state import TrainState

from numcheck.errors import NonFiniteError
from numcheck_jax.instrumentation import instrument

if TYPE_CHECKING:
    import os

    from numcheck.monitor import Monitor

__all__ = ["demonstrate"]

VOCABULARY = 64
WIDTH = 64
HEADS = 4
LENGTH = 32
STEPS = 100


class Block(nn.Module):
    """Pre-norm attention and MLP."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the block's output, shaped like `x`."""
        half = jnp.float16
        mask = nn.make_causal_mask(x[..., 0])
        seen = nn.LayerNorm(dtype=half)(x)
        x = x + nn.SelfAttention(HEADS, dtype=half, name="attention")(seen, mask)
        wide = nn.Dense(4 * WIDTH, dtype=half, name="up")(nn.LayerNorm(dtype=half)(x))
        down = nn.Dense(WIDTH, dtype=half, name="down")
        out: jax.Array = x + down(jnp.square(nn.relu(wide)))
        return out


class LanguageModel(nn.Module):
    """A two-layer decoder over a tiny vocabulary."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Return logits for every position."""
        x = nn.Embed(VOCABULARY, WIDTH, dtype=jnp.float16, name="tokens")(tokens)
        small = nn.initializers.normal(0.02)
        positions = self.param("positions", small, (LENGTH, WIDTH))
        x = x + positions.astype(jnp.float16)
        for i in range(2):
            x = Block(name=f"blocks_{i}")(x)
        logits: jax.Array = nn.Dense(VOCABULARY, name="head")(nn.LayerNorm()(x))
        return logits


@jax.jit
def train_step(state: TrainState, text: jax.Array) -> tuple[TrainState, jax.Array]:
    """Return the updated state and the loss on one batch of texts."""

    def loss_of(params: Any) -> jax.Array:
        logits = state.apply_fn(params, text[:, :-1]).astype(jnp.float32)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, text[:, 1:])
        loss: jax.Array = losses.mean()
        return loss

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=grads), loss


def demonstrate(run: str | os.PathLike[str] | None = None) -> Monitor:
    """Train the model until it breaks, and return the monitor that explains it.

    Args:
        run: folder that keeps the trace; None keeps it in memory.
    """
    model = LanguageModel()
    key = jax.random.key(0)
    params = model.init(key, jnp.zeros((1, LENGTH), jnp.int32))
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adamw(0.1))
    step = instrument(train_step, run=run)
    monitor: Monitor = step.numcheck
    try:
        with monitor:
            for i in range(STEPS):
                state, _ = step(state, _texts(jax.random.fold_in(key, i)))
    except NonFiniteError:
        pass  # the monitor keeps the finding
    return monitor


def _texts(key: jax.Array) -> jax.Array:
    steps = jax.random.randint(key, (8, LENGTH + 1), 0, VOCABULARY)
    return jnp.cumsum(steps, axis=1) % VOCABULARY
