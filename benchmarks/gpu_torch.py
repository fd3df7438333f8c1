# SPDX-License-Identifier: Apache-2.0
"""What watching costs and leaves unchanged on a CUDA device, in at most six minutes.

First, trainings are run plain, plain again and watched, and compared bit for bit: the
losses, the gradients, the parameters, the state of every random generator. Then broken
steps are replayed and must be named. Last, the ratios that ``torch_overhead.py`` prints
are measured with the device's own clock. Where there is no CUDA device it says so and
ends well.

    python benchmarks/gpu_torch.py [--seconds 300]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

# Some products are repeatable only with a workspace of a fixed size.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils.checkpoint import checkpoint
from torch_overhead import (
    IsFinite,
    Transformer,
    mlp,
    show,
    with_anomaly_detection,
    with_module_hooks,
)

import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 4


class Convolutional(nn.Module):
    def __init__(self, recompute: str) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16)
        self.rest = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.3), nn.Tanh())
        self.last, self.recompute = nn.Linear(32, 10), recompute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = fn.relu(self.norm(self.first(x))).mean((2, 3))
        if self.recompute:
            again = self.recompute == "re-entrant"
            x = checkpoint(self.rest, x, use_reentrant=again)
        else:
            x = self.rest(x)
        return self.last(x)


class Training:
    """One model, its optimizer and its batch on a device; a call is a step.

    Args:
        device: where.
        kind: ``mlp``, ``transformer`` or ``convolutional``.
        low: format of autocast; float16 brings a gradient scaler.
        fused: use the fused optimizer.
        compiled: compile the model.
        recompute: which kind of checkpoint.
    """

    def __init__(
        self,
        device: str,
        kind: str,
        *,
        low: torch.dtype | None = None,
        fused: bool = False,
        compiled: bool = False,
        recompute: str = "",
        small: bool = False,
    ) -> None:
        torch.manual_seed(0)
        self.device, self.low = device, low
        words, length, size = (64, 16, 4) if small else (512, 128, 8)
        if kind == "mlp":
            self.model, self.x = mlp(), torch.randn(64, 256)
            self.y = torch.randint(0, 10, (64,))
        elif kind == "transformer":
            self.model = Transformer(words, 32 if small else 256, length)
            self.x, self.y = torch.randint(0, words, (2, size, length))
        else:
            self.model, self.x = Convolutional(recompute), torch.randn(16, 3, 16, 16)
            self.y = torch.randint(0, 10, (16,))
        self.model.to(device)
        self.x, self.y = self.x.to(device), self.y.to(device)
        form = {"fused": True} if fused else {"foreach": True}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **form)
        is_half = low is torch.float16
        self.scaler = torch.amp.GradScaler(torch.device(device).type, enabled=is_half)
        self.called = torch.compile(self.model) if compiled else self.model

    def __call__(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        kind = torch.device(self.device).type
        with torch.autocast(kind, self.low, enabled=self.low is not None):
            out = self.called(self.x)
            loss = fn.cross_entropy(out.float().flatten(0, -2), self.y.flatten())
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def watched(self, **options: Any) -> Training:
        scaler = self.scaler if self.scaler.is_enabled() else None
        self.called = numcheck_torch.instrument(
            self.called, self.optimizer, scaler, **options
        )
        return self


# --- what must stay as it is ---


def bits(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().view(-1)
    return flat.view(torch.uint8).cpu().numpy().tobytes()


def outcome(training: Training) -> list[bytes]:
    """Return every bit that a few steps leave."""
    torch.manual_seed(17)
    found = []
    for _ in range(STEPS):
        found.append(bits(training()))
        gradients = [p.grad for p in training.model.parameters()]
        found += [bits(g) for g in gradients if g is not None]
    found += [bits(t) for t in training.model.state_dict().values()]
    found.append(bits(torch.get_rng_state()))
    if training.device != "cpu":
        found.append(bits(torch.cuda.get_rng_state()))
    return found


def ways(device: str, *, small: bool) -> dict[str, Callable[[], Training]]:
    def way(kind: str, **options: Any) -> Callable[[], Training]:
        return lambda: Training(device, kind, small=small, **options)

    found = {
        "MLP": way("mlp"),
        "MLP, fused optimizer": way("mlp", fused=True),
        "convolution, BatchNorm, dropout": way("convolutional"),
        "checkpoint": way("convolutional", recompute="plain"),
        "re-entrant checkpoint": way("convolutional", recompute="re-entrant"),
        "transformer": way("transformer"),
        "transformer, bfloat16": way("transformer", low=torch.bfloat16),
        "MLP, float16, scaler": way("mlp", low=torch.float16, fused=True),
    }
    if not small:
        found["transformer, compiled"] = way("transformer", compiled=True)
    return found


def check_identity(device: str, *, small: bool) -> int:
    """Compare trainings bit for bit; return how many a watch changed."""
    changed = 0
    for name, build in ways(device, small=small).items():
        plain, again = outcome(build()), outcome(build())
        if plain != again:
            print(f"  {name:36} not repeatable by itself, nothing to compare")
            continue
        options: dict[str, Any] = {"on_error": "record", "every": 2}
        watched = build().watched(**options)
        with watched.called.numcheck as monitor:
            same = outcome(watched) == plain
        faults = [str(e.value) for e in monitor.events if e.name == "fault"]
        errors = [f.site.op for f in monitor.findings if f.severity == "error"]
        is_good = same and not faults and not errors
        changed += not is_good
        told = "bit for bit the same" if is_good else f"CHANGED {faults} {errors}"
        print(f"  {name:36} {told}")
    return changed


# --- what must be named ---


class Breaks(nn.Module):
    """Breaks in its forward, or in its backward, where the input says so."""

    def __init__(self, operator: str) -> None:
        super().__init__()
        self.layer, self.operator = nn.Linear(8, 8), operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = (self.layer(x).float().square() + 0.1) * x[0, 0].abs().clamp(max=1)
        if self.operator == "_to_copy":
            return (self.layer(x).float() * (1e7 - 1e7 * x[0, 0])).half().float()
        return kept.log() if self.operator == "log" else kept.sqrt()


def check_names(device: str) -> int:
    """Break steps; return how many were not named."""
    missed = 0
    wanted = {"log": "log", "sqrt": "div", "_to_copy": "_to_copy"}
    for operator, named in wanted.items():
        model = Breaks(operator).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model = numcheck_torch.instrument(model, optimizer, on_error="record")
        for step in range(3):
            x = torch.ones(4, 8, device=device)
            x[0, 0] = float(step < 2)
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        with model.numcheck as monitor:
            pass
        found = [f for f in monitor.findings if f.severity == "error"]
        told = (found[0].site.op, found[0].step) if found else ("nothing", -1)
        is_right = told[0].split(".")[1:2] == [named] and told[1] == 2
        missed += not is_right
        print(f"  {operator:36} {told[0]} at step {told[1]}: {is_right}")
    return missed


# --- what it costs ---


class WithIsFinite:
    def __init__(self, training: Training) -> None:
        self.training = training

    def __call__(self) -> torch.Tensor:
        with IsFinite():
            return self.training()


def variants(build: Callable[[], Training]) -> dict[str, Any]:
    quiet: dict[str, Any] = {"audit_first": False}
    return {
        "plain": build(),
        "plain again (A/A)": build(),
        "numcheck watch": build().watched(**quiet),
        "numcheck trace": build().watched(level="trace", **quiet),
        "detect_anomaly": with_anomaly_detection(build()),
        "module hooks": with_module_hooks(build()),
        "isfinite of every operator": WithIsFinite(build()),
    }


def seconds(step: Any, device: str, inner: int) -> float:
    start = time.perf_counter()
    for _ in range(inner):
        step()
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / inner


def measure(steps: dict[str, Any], device: str, until: float) -> dict[str, list[float]]:
    """Return seconds a step, by turns, until the time is over."""
    for step in steps.values():
        seconds(step, device, 3)
    inner = max(1, int(0.1 / seconds(steps["plain"], device, 3)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    turn = 0
    while time.perf_counter() < until or turn < 3:
        for name in list(steps) if turn % 2 else reversed(list(steps)):
            times[name].append(seconds(steps[name], device, inner))
        turn += 1
    return times


def check_costs(device: str, until: float, *, small: bool) -> None:
    named = ways(device, small=small)
    cases = ["MLP", "transformer", "transformer, bfloat16"]
    for left, name in zip(range(len(cases), 0, -1), cases, strict=True):
        now = time.perf_counter()
        share = now + max(0.0, until - now) / left
        show(name, measure(variants(named[name]), device, share))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    # A rehearsal without a device: small models, where everything else is the same.
    parser.add_argument("--rehearse", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not (torch.cuda.is_available() or given.rehearse):
        print("skipped: PyTorch sees no CUDA device here")
        return 0
    device, start = "cpu" if given.rehearse else "cuda", time.perf_counter()
    torch.use_deterministic_algorithms(True, warn_only=True)
    where = "CPU" if given.rehearse else torch.cuda.get_device_name()
    print(f"{where}, PyTorch {torch.__version__}")
    bad = check_identity(device, small=given.rehearse) + check_names(device)
    torch.use_deterministic_algorithms(False)
    check_costs(device, start + given.seconds, small=given.rehearse)
    print(f"{time.perf_counter() - start:.0f} s in all; {bad} checks failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
