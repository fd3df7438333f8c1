# SPDX-License-Identifier: Apache-2.0
"""What a simulated training step costs: a small transformer, forward and backward.

    python benchmarks/simulate.py [--profiles mxfp8 fp8-block] [--rounds 9]

Four layers, width 256, 8 sequences of 128 tokens, one thread. The variants take turns,
forwards and backwards, and ``plain again`` shows what the comparison itself is worth.
Times are CPU time; ratios are medians of the rounds' own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH, LAYERS, HEADS, TOKENS, BATCH, WORDS = 256, 4, 4, 128, 8, 512


class Block(nn.Module):
    """Attention and a feed-forward part, each on a residual branch."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.mixed = nn.Linear(WIDTH, 3 * WIDTH)
        self.gathered = nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.GELU(),
            nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, token, channel) one layer on."""
        mixed = self.mixed(self.before_attention(x))
        heads = mixed.unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.gathered(attended.transpose(1, 2).flatten(-2))
        return x + self.feed_forward(x)


class Transformer(nn.Module):
    """A language model over `WORDS` words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(TOKENS, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        )

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next word at every place."""
        return self.head(self.blocks(self.words(text) + self.places))


def training_step(profile: str | None) -> Callable[[], None]:
    """Return a forward and backward pass, plain or under a profile."""
    torch.manual_seed(0)
    model = Transformer()
    text = torch.randint(WORDS, (BATCH, TOKENS + 1))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        scores = model(text[:, :-1])
        functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten()).backward()

    return step if profile is None else numcheck_torch.simulate(step, profile)


def measured(
    variants: dict[str, Callable[[], None]], rounds: int
) -> dict[str, list[float]]:
    """Return the seconds of every round of every variant, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for step in variants.values():
        step()
    for i in range(rounds):
        for name in list(variants)[:: 1 if i % 2 == 0 else -1]:
            begun = time.process_time()
            variants[name]()
            times[name].append(time.process_time() - begun)
    return times


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", nargs="+", default=["float32", "mxfp8"])
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(1)
    variants = {"plain": training_step(None), "plain again": training_step(None)}
    variants |= {name: training_step(name) for name in given.profiles}
    times = measured(variants, given.rounds)
    print(f"{'variant':<18}{'ms':>9}{'× plain':>10}")
    for name, row in times.items():
        pairs = zip(row, times["plain"], strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{name:<18}{1e3 * statistics.median(row):>9.1f}{ratio:>10.2f}")


if __name__ == "__main__":
    main()
