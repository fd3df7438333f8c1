# SPDX-License-Identifier: Apache-2.0
"""What rounding, block formats and summaries cost, as multiples of copying the array.

    python benchmarks/formats.py            # times, of 4M float32 elements
    python benchmarks/formats.py --memory   # memory beyond input and output at 1 GiB

Process CPU time on one thread; contestants take turns, and each number is a median.
Two columns: `cached`, where the array stays in the processor's cache between turns as
far as it fits, and `memory`, where every turn begins with the cache full of something
else, as it is when a tensor has just been made by a training step. The two copies are
the same code: their difference is the noise. gfloat and torchao (`pip install --no-deps
gfloat torchao`) are compared where they are installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import ml_dtypes  # noqa: E402 - threads are limited before numpy loads
import numpy as np  # noqa: E402 - as above

from numcheck.formats import quantize  # noqa: E402 - as above
from numcheck.measure import CodeHistogram, fit, summarize  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import Callable

    Contestant = Callable[[], object]

COUNT = 1 << 22
ROUNDS = 15
# Other libraries are far slower: they get a part of the array, and fewer turns.
PART = 64
LIMITS = {
    "round to float16": 4.5,
    "round to bfloat16": 4.5,
    "round to float8_e4m3fn": 4.5,
    "round to hifloat8": 4.5,
    "mxfp8_e4m3": 6.5,
    "mxfp4_e2m1": 6.5,
    "summary": 5.5,
    "summary and binades": 5.5,
    "summary of float16": 3.5,
    "summary of bfloat16": 3.5,
}


def ours(x: np.ndarray, out: np.ndarray) -> dict[str, Contestant]:
    """Returns what numcheck does, by name."""
    half, brain = x.astype(np.float16), x.astype(ml_dtypes.bfloat16)
    names = ("float16", "bfloat16", "float8_e4m3fn", "hifloat8")
    found: dict[str, Contestant] = {
        f"round to {name}": lambda name=name: quantize(x, name, out=out)
        for name in names
    }
    found |= {
        name: lambda name=name: quantize(x, name, out=out)
        for name in ("mxfp8_e4m3", "mxfp4_e2m1")
    }
    return found | {
        "summary": lambda: summarize(x),
        "summary and binades": lambda: summarize(x, histogram=True),
        "summary of float16": lambda: summarize(half),
        "summary of bfloat16": lambda: summarize(brain),
        "codes of float16": lambda: CodeHistogram.of(half),
        "fit of six formats": lambda: fit(x),
    }


def casts(x: np.ndarray, out: np.ndarray) -> dict[str, Contestant]:
    """Returns casts there and back by numpy and ml_dtypes."""

    def there_and_back(dtype: Any) -> Contestant:
        narrow = np.empty(x.size, dtype)

        def turn() -> None:
            np.copyto(narrow, x, casting="unsafe")
            np.copyto(out, narrow, casting="unsafe")

        return turn

    return {
        "numpy float16 cast": there_and_back(np.float16),
        "ml_dtypes bfloat16 cast": there_and_back(ml_dtypes.bfloat16),
        "ml_dtypes float8_e4m3fn cast": there_and_back(ml_dtypes.float8_e4m3fn),
        "numpy isfinite, min, max, sum": lambda: (
            np.isfinite(x).all(), x.min(), x.max(), x.sum(dtype=np.float64),
        ),
    }  # fmt: skip


def others(x: np.ndarray) -> dict[str, Contestant]:
    """Returns what other libraries do to a part of the array, where installed."""
    part, found = x[: x.size // PART], {}
    if importlib.util.find_spec("gfloat"):
        import gfloat
        from gfloat.formats import format_info_binary16, format_info_ocp_e4m3

        wide = part.astype(np.float64)
        for name, info in (
            ("float16", format_info_binary16),
            ("float8_e4m3fn", format_info_ocp_e4m3),
        ):
            found[f"gfloat {name}"] = lambda info=info: gfloat.round_ndarray(info, wide)
    if importlib.util.find_spec("torchao") and importlib.util.find_spec("torch"):
        found |= torchao_blocks(part)
    found["frexp-and-round mxfp8 (as microxcaling)"] = lambda: frexp_and_round(part)
    return found


def torchao_blocks(part: np.ndarray) -> dict[str, Contestant]:
    """Returns torchao's MX quantise and dequantise."""
    import torch

    try:
        from torchao.prototype.mx_formats.mx_tensor import MXTensor
    except ImportError:
        return {}
    tensor = torch.from_numpy(part.reshape(-1, 1024))
    torch.set_num_threads(1)

    def turn() -> object:
        made = MXTensor.to_mx(tensor, torch.float8_e4m3fn, 32)
        return made.dequantize(torch.float32)

    return {"torchao mxfp8": turn}


def frexp_and_round(x: np.ndarray) -> np.ndarray:
    """Returns MXFP8 the textbook way: whole-array steps, exponents by log2."""
    blocks = x.reshape(-1, 32)
    amax = np.abs(blocks).max(axis=1, keepdims=True)
    shared = np.floor(np.log2(amax + (amax == 0) * 2.0**-126)) - 8
    scaled = blocks / np.exp2(shared)
    private = np.floor(np.log2(np.abs(scaled) + (scaled == 0)))
    private = np.maximum(private, -6)
    scaled = scaled / np.exp2(private) * 8
    scaled = np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)
    scaled = np.clip(scaled / 8 * np.exp2(private), -448, 448)
    return scaled * np.exp2(shared)


def median_times(
    contestants: dict[str, Contestant], rounds: int, spoil: np.ndarray | None
) -> dict[str, float]:
    """Returns the median CPU seconds of each, taking turns."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, turn in contestants.items():
            if spoil is not None:
                np.add(spoil, 1, out=spoil)
            start = time.process_time()
            turn()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def print_times() -> None:
    """Prints the table of times."""
    x = np.random.default_rng(0).standard_normal(COUNT).astype(np.float32)
    out, again = np.empty_like(x), np.empty_like(x)
    spoil = np.zeros(1 << 25, np.float32)  # larger than any cache
    copies: dict[str, Contestant] = {
        "copy": lambda: np.copyto(out, x),
        "copy again (A/A)": lambda: np.copyto(again, x),
    }
    fast = copies | ours(x, out) | casts(x, out)
    columns = [median_times(fast, ROUNDS, where) for where in (None, spoil)]
    slow = median_times(others(x), 3, None)
    print(f"{COUNT} float32 elements, CPU time / time of a copy, medians of {ROUNDS}")
    cached, memory = (f"{1e3 * column['copy']:.2f} ms" for column in columns)
    print(f"copy: {cached} cached, {memory} from memory\n")
    print(f"{'':42}{'cached':>8}{'memory':>8}{'limit':>8}")
    for name in fast:
        ratios = [column[name] / column["copy"] for column in columns]
        limit = f"{LIMITS[name]:8.1f}" if name in LIMITS else ""
        print(f"{name:42}{ratios[0]:8.2f}{ratios[1]:8.2f}{limit}")
    for name, seconds in slow.items():
        scaled = [PART * seconds / column["copy"] for column in columns]
        print(f"{name:42}{scaled[0]:8.0f}{scaled[1]:8.0f}")


TASKS: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "round to float16": lambda x, out: quantize(x, "fp16", out=out),
    "round to hifloat8, up": lambda x, out: quantize(x, "hif8", rounding="up", out=out),
    "mxfp8_e4m3": lambda x, out: quantize(x, "mxfp8", out=out),
    "nvfp4": lambda x, out: quantize(x, "nvfp4", out=out),
    "e4m3, one scale a tensor": lambda x, out: quantize(
        x, "e4m3", block_size="tensor", out=out
    ),
    "summary and binades": lambda x, _: summarize(x, histogram=True),
    "fit of six formats": lambda x, _: fit(x),
}


def print_memory(task: str | None) -> None:
    """Prints the memory of each task beyond a 1 GiB input and its output."""
    if task is None:
        for name in TASKS:
            command = [sys.executable, __file__, "--memory", "--task", name]
            subprocess.run(command, check=True)
        return
    x = np.ones(1 << 28, np.float32)
    x[::3] = -0.3
    out = np.zeros_like(x)
    TASKS[task](x[:16], out[:16])  # loads the code, not the buffers
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    TASKS[task](x, out)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{task:28} {(after - before) / 1024:8.1f} MiB beyond input and output")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--task", choices=TASKS)
    chosen = parser.parse_args()
    if chosen.memory:
        print_memory(chosen.task)
    else:
        print_times()
