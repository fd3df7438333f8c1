# SPDX-License-Identifier: Apache-2.0
"""What watching a PyTorch training costs, as ratios to the plain step.

Variants run interleaved, forwards and backwards, on one thread, timed by the process's
CPU time; each ratio is the median of the paired ratios, and beside it stands the median
of what a step takes longer. A second plain variant (A/A) shows the noise. Beside
numcheck stand ``detect_anomaly``, hooks on every module that look for NaN and Inf (as
debugging aids do), a dispatch mode that asks ``isfinite`` of every operator's output,
and PyTorch's own `DebugMode` with a hash of every tensor. Where they look at every
operator, their overhead is also given as a multiple of numcheck's trace. A compiled
step has no such peers: they would run it uncompiled.

    python benchmarks/torch_overhead.py [--rounds 15] [--case mlp transformer]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils._debug_mode import DebugMode
from torch.utils._python_dispatch import TorchDispatchMode

import numcheck_torch

TRACE = "numcheck trace"
PEERS = ("isfinite of every operator", "DebugMode with hashes")


class Block(nn.Module):
    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.project, self.norm2 = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.norm1(x)).view(heads).permute(2, 0, 3, 1, 4)
        seen = fn.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(fn.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, words: int = 512, width: int = 256, length: int = 128) -> None:
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions
        return self.head(self.norm(self.blocks(x)))


def mlp() -> nn.Module:
    layers = [m for _ in range(4) for m in (nn.Linear(256, 256), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(256, 10))


class Training:
    """One model with its optimizer and batch; a call is a step."""

    def __init__(self, case: str) -> None:
        torch.manual_seed(0)
        self.bf16 = case.endswith("bf16")
        self.compiled = "compiled" in case
        if case.startswith("mlp"):
            self.model = mlp()
            # A step of about 3 ms on one thread.
            self.x, self.y = torch.randn(160, 256), torch.randint(0, 10, (160,))
        else:
            self.model = Transformer()
            self.x, self.y = torch.randint(0, 512, (2, 8, 128))
        if self.compiled:
            self.model = torch.compile(self.model)
        parameters = self.model.parameters()
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-4, foreach=True)

    def __call__(self) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            out = self.model(self.x)
            loss = fn.cross_entropy(out.float().flatten(0, -2), self.y.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def watched(training: Training, **options: Any) -> Training:
    numcheck_torch.instrument(training.model, training.optimizer, **options)
    return training


def with_anomaly_detection(training: Training) -> Any:
    def step() -> torch.Tensor:
        with torch.autograd.detect_anomaly():
            return training()

    return step


def with_module_hooks(training: Training) -> Training:
    """Looks for NaN and Inf in every module's output, gradients and weights."""

    def look(*tensors: Any) -> None:
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                bad = bool(torch.isnan(tensor).any()) or bool(torch.isinf(tensor).any())
                assert not bad

    def after(module: nn.Module, args: Any, out: Any) -> None:
        look(*args, out, *module.parameters(recurse=False))

    for module in training.model.modules():
        module.register_forward_hook(after)
        if not list(module.children()):
            module.register_full_backward_hook(lambda _m, a, b: look(*a, *b))
    return training


class IsFinite(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, tuple | list) else (out,):
            if isinstance(t, torch.Tensor) and t.is_floating_point():
                bool(torch.isfinite(t).all())
        return out


def with_isfinite(training: Training) -> Any:
    def step() -> torch.Tensor:
        with IsFinite():
            return training()

    return step


def with_debug_mode(training: Training) -> Any:
    def step() -> torch.Tensor:
        with DebugMode() as mode, mode.log_tensor_hashes():
            return training()

    return step


def variants(case: str) -> dict[str, Any]:
    new = Training
    ours = {
        "plain": new(case),
        "plain again (A/A)": new(case),
        "numcheck watch": watched(new(case)),
        TRACE: watched(new(case), level="trace"),
    }
    if "compiled" in case:
        return ours
    return ours | {
        "detect_anomaly": with_anomaly_detection(new(case)),
        "module hooks": with_module_hooks(new(case)),
        "isfinite of every operator": with_isfinite(new(case)),
        "DebugMode with hashes": with_debug_mode(new(case)),
    }


def measure(steps: dict[str, Any], rounds: int, inner: int) -> dict[str, list[float]]:
    """Return seconds a step; each time is of `inner` steps in a row, as in training."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
        step()
    for turn in range(rounds):
        for name in list(steps) if turn % 2 else reversed(list(steps)):
            start = time.process_time()
            for _ in range(inner):
                steps[name]()
            times[name].append((time.process_time() - start) / inner)
    return times


def show(case: str, times: dict[str, list[float]]) -> None:
    plain = times["plain"]
    print(f"{case}: plain step {statistics.median(plain) * 1e3:.2f} ms")
    traced = overhead(times[TRACE], plain)
    for name, taken in times.items():
        extra = overhead(taken, plain)
        added = [t - p for t, p in zip(taken, plain, strict=True)]
        is_peer = name in PEERS and traced > 0
        against = f"  {extra / traced:5.1f} x trace" if is_peer else ""
        cost = f"{1 + extra:6.3f} {statistics.median(added) * 1e6:+8.0f} us"
        print(f"  {name:28} {cost}{against}")


def overhead(taken: list[float], plain: list[float]) -> float:
    """Return the median of the paired ratios, less one."""
    return statistics.median([t / p for t, p in zip(taken, plain, strict=True)]) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--case",
        nargs="+",
        default=[
            "mlp",
            "transformer",
            "transformer bf16",
            "transformer compiled",
            "transformer compiled bf16",
        ],
    )
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for case in chosen.case:
        inner = 20 if case == "mlp" else 1
        show(case, measure(variants(case), chosen.rounds, inner))


if __name__ == "__main__":
    main()
