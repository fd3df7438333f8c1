# SPDX-License-Identifier: Apache-2.0
"""Whether watching leaves a GPU's results alone, and what it costs there.

    python benchmarks/gpu_jax.py [--minutes 6]

First every construct of the tests runs plain and watched, and the results are compared
bit for bit: level watch as the user's program is, levels anchors and trace under
``xla_allow_excess_precision=False``. Then the ratios of `jax_overhead` are measured,
by the clock, since a GPU's work is no CPU time. The two halves run in processes of
their own, for their flags. Without a CUDA device a line says so and nothing runs.

Exits with 1 when a result differs, with 2 when a half failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Made = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("identity", "ratios")
SAME, DIFFERENT, FAILED, SKIPPED = 0, 1, 2, 77
LEVELS = ("watch", "anchors", "trace")
EXACT = (
    # Without these a GPU's own results change from one compilation to the next.
    "--xla_allow_excess_precision=false",
    "--xla_gpu_deterministic_ops=true",
    "--xla_gpu_autotune_level=0",
)


def programs(*, quick: bool) -> Iterator[tuple[str, Made]]:
    """Yield every program that results are compared on, by its name."""
    import jax

    from tests.jax.identity.programs import PROGRAMS
    from tests.jax.interpreter.constructs import CONSTRUCTS, X, root

    yield from list(PROGRAMS.items())[: 5 if quick else None]
    for name, (construct, _, reverses) in list(CONSTRUCTS.items())[
        : 2 if quick else None
    ]:
        inner = construct(root)
        function = jax.value_and_grad(inner) if reverses else inner
        yield f"gradient in {name}", (jax.jit(function), (X + 0.5,), {})


def bits(tree: Any) -> list[tuple[str, bytes]]:
    import jax
    import numpy as np

    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return [(str(array.dtype), array.tobytes()) for array in arrays]


def verdict(made: Made, level: str) -> str:
    """Return how a program's results compare with those of the same, watched."""
    import numcheck_jax

    function, args, kwargs = made
    wanted = bits(function(*args, **kwargs))
    options = {"level": level, "audit_first": False, "on_error": "record"}
    watched = numcheck_jax.instrument(function, **options)
    got = bits(watched(*args, **kwargs))
    watched.numcheck.close()
    faults = [e for e in watched.numcheck.events if e.name == "fault"]
    if faults:
        return f"fault: {faults[0].value}"
    return "same" if got == wanted else "different"


def identity(deadline: float, *, quick: bool) -> int:
    counts: dict[str, Counter[str]] = {level: Counter() for level in LEVELS}
    for name, made in programs(quick=quick):
        if time.monotonic() > deadline:
            print(f"  time is up before: {name}")
            break
        function, args, kwargs = made
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - too few devices, an unknown dtype
            print(f"  does not run here: {name}: {str(error).splitlines()[0]}")
            continue
        for level in LEVELS:
            found = verdict(made, level)
            counts[level][found] += 1
            if found != "same":
                print(f"  {name}, {level}: {found}")
    for level, count in counts.items():
        print(f"  {level:10} {count['same']} of {count.total()} bit for bit the same")
    good = all(count["same"] == count.total() > 0 for count in counts.values())
    return SAME if good else DIFFERENT


def ratios(deadline: float, *, quick: bool, is_cpu: bool) -> int:
    import jax

    from benchmarks import jax_overhead

    for name in ("mlp",) if quick else ("transformer", "transformer bf16", "mlp"):
        step, args = jax_overhead.case(name)
        ready = {}
        for title, variant in jax_overhead.variants(step, args).items():
            if time.monotonic() > deadline and ready:
                print(f"  time is up before: {name}, {title}")
                break
            jax.block_until_ready(variant(*args))
            ready[title] = variant
        clock = time.process_time if is_cpu else time.perf_counter
        rounds = 5 if quick else 40
        times = jax_overhead.measure(ready, args, rounds, clock)
        jax_overhead.show(f"{name}, a step", times)
        if time.monotonic() > deadline:
            break
    return SAME


def part(name: str, device: str, deadline: float, *, quick: bool) -> int:
    """Run one half in this process."""
    sys.path.insert(0, str(ROOT))
    warnings.simplefilter("ignore")
    import jax

    try:
        devices = jax.devices(device)
    except RuntimeError:
        return SKIPPED
    print(f"{name}: jax {jax.__version__} on {devices[0].device_kind}")
    if name == "identity":
        return identity(deadline, quick=quick)
    return ratios(deadline, quick=quick, is_cpu=device == "cpu")


def start(name: str, chosen: argparse.Namespace, seconds: float) -> int:
    """Run one half in a process of its own and return its exit status."""
    flags = os.environ.get("XLA_FLAGS", "")
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if name == "identity":
        environment["XLA_FLAGS"] = " ".join((flags, *EXACT)).strip()
    command = [sys.executable, "-u", __file__, "--part", name, f"--seconds={seconds}"]
    command += [f"--device={chosen.device}", *["--quick"] * chosen.quick]
    try:
        # Past its deadline a half finishes what it compiles, but not for ever.
        limit = seconds + 20
        return subprocess.run(
            command, env=environment, timeout=limit, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        print(f"{name}: stopped after {limit:.0f} s")
        return SAME if name == "ratios" else FAILED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=6.0, help="at most, in all")
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part is not None:
        deadline = time.monotonic() + chosen.seconds
        return part(chosen.part, chosen.device, deadline, quick=chosen.quick)
    began, left = time.monotonic(), chosen.minutes * 60 - 45
    worst = SAME
    for name, share in zip(PARTS, (0.5, 1.0), strict=True):
        remaining = max(10.0, share * (left - (time.monotonic() - began)))
        status = start(name, chosen, remaining)
        if status == SKIPPED:
            print(f"skipped: JAX finds no {chosen.device} device here")
            return SAME
        worst = max(worst, status if status in {SAME, DIFFERENT} else FAILED)
    return worst


if __name__ == "__main__":
    sys.exit(main())
