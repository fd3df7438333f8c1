# SPDX-License-Identifier: Apache-2.0
"""A small language model that breaks in float16, watched.

A transformer with squared-ReLU MLPs trains under float16 autocast with a learning rate
that is too high and no warm-up: its activations grow until float16 cannot hold them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from numcheck.errors import NonFiniteError
from numcheck_torch.instrumentation import instrument

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

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output, shaped like `x`."""
        batch, length, _ = x.shape
        heads = (batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = self.qkv(self.norm_attention(x)).view(heads).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        wide = functional.relu(self.up(self.norm_mlp(x))).square()
        out: torch.Tensor = x + self.down(wide)
        return out


class LanguageModel(nn.Module):
    """A two-layer decoder over a tiny vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits for every position."""
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def demonstrate(run: str | os.PathLike[str] | None = None) -> Monitor:
    """Train the model until it breaks, and return the monitor that explains it.

    Args:
        run: folder that keeps the trace; None keeps it in memory.
    """
    torch.manual_seed(0)
    plain = LanguageModel()
    optimizer = torch.optim.AdamW(plain.parameters(), lr=0.1)
    model = instrument(plain, optimizer, run=run)
    monitor: Monitor = model.numcheck  # type: ignore[assignment]
    try:
        with monitor:
            for _ in range(STEPS):
                _train_step(model, optimizer)
    except NonFiniteError:
        pass  # the monitor keeps the finding
    return monitor


def _train_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    text = torch.randint(0, VOCABULARY, (8, LENGTH + 1)).cumsum(1) % VOCABULARY
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(text[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
