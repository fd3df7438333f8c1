# SPDX-License-Identifier: Apache-2.0
"""How long a full diagnosis takes: from the start of a failing step to the exception.

A weight of the benchmark transformer (4 layers, width 256, 8 x 128 words) is made so
large that one product overflows. The time of that step, its replay and all experiments
included, stands beside that of a plain step and the limit of 30 plain steps and 5 s.
The time is the wall clock's; the process's CPU time is told as well, for busy machines.

    python benchmarks/diagnosis_time.py [--only torch] [--dtype float32 bfloat16]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Any

from numcheck.errors import NonFiniteError

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN_STEPS = 30
SECONDS = 5.0
HUGE = 3e38
WARM_UP, TIMED = 3, 7

Timed = tuple[float, float]
"""Seconds by the clock, and of the process's CPU."""


def timed(action: Callable[[], object]) -> Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def median(step: Callable[[], object]) -> Timed:
    for _ in range(WARM_UP):
        step()
    found = [timed(step) for _ in range(TIMED)]
    walls, cpus = zip(*found, strict=True)
    return statistics.median(walls), statistics.median(cpus)


def failing(step: Callable[[], object]) -> tuple[Timed, Any]:
    """Return how long a step took that raises, and its monitor's finding."""
    caught: list[NonFiniteError] = []

    def run() -> None:
        try:
            step()
        except NonFiniteError as error:
            caught.append(error)

    return timed(run), caught[0].finding


def in_torch(dtype: str) -> tuple[Timed, Timed, Any, Any]:
    import torch
    from torch_overhead import Training

    import numcheck_torch

    case = "transformer" if dtype == "float32" else "transformer bf16"
    plain = median(Training(case))
    training = Training(case)
    model: Any = numcheck_torch.instrument(training.model, training.optimizer)
    for _ in range(WARM_UP):
        training()
    with torch.no_grad():
        model.blocks[2].up.weight[0] = HUGE
    took, finding = failing(training)
    return plain, took, finding, model.numcheck.incidents[-1]


def in_jax(dtype: str) -> tuple[Timed, Timed, Any, Any]:
    import jax
    from jax_overhead import case

    import numcheck_jax

    step, args = case("transformer" if dtype == "float32" else "transformer bf16")
    jitted = jax.jit(step)
    plain = median(lambda: jax.block_until_ready(jitted(*args)))
    watched = numcheck_jax.instrument(jax.jit(step), lag=0)
    params, state, batch = args
    for _ in range(WARM_UP):
        params, state, _ = watched(params, state, batch)
    up = params["blocks"][2]["up"]
    params["blocks"][2]["up"] = up.at[:, 0].set(HUGE)
    took, finding = failing(lambda: watched(params, state, batch))
    return plain, took, finding, watched.numcheck.incidents[-1]


CASES: dict[str, Callable[[str], tuple[Timed, Timed, Any, Any]]] = {
    "torch": in_torch,
    "jax": in_jax,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=CASES, help="one framework alone")
    parser.add_argument("--dtype", nargs="*", default=["float32", "bfloat16"])
    chosen = parser.parse_args()
    print(
        f"{'':16}{'plain step':>14}{'diagnosis':>14}{'limit':>10}   of CPU"
        "      finding, experiments"
    )
    for name, run in CASES.items():
        for dtype in chosen.dtype if name in (chosen.only or name) else ():
            plain, took, finding, incident = run(dtype)
            limit = PLAIN_STEPS * plain[0] + SECONDS
            ran = [
                e.name for e in incident.experiments.values() if e.result != "not_run"
            ]
            print(
                f"{name + ' ' + dtype:16}{1e3 * plain[0]:11.0f} ms{took[0]:12.2f} s"
                f"{limit:8.1f} s   {took[1]:.2f} s of "
                f"{PLAIN_STEPS * plain[1] + SECONDS:.1f} s   {finding.id}, "
                + ", ".join(ran)
            )


if __name__ == "__main__":
    main()
