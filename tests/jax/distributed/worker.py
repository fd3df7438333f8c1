# SPDX-License-Identifier: Apache-2.0
"""One of two processes that run the same steps on arrays they hold together.

Prints one line of JSON a scenario: what this process's monitor says.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import numcheck_jax

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTY, FAULTY_STEP = 1, 1


def loss(w: Any, x: Any) -> Any:
    return jnp.mean(jnp.log(x @ w))


def step(w: Any, x: Any) -> Any:
    value, gradient = jax.value_and_grad(loss)(w, x)
    return w - 0.01 * gradient, value


class Scenario:
    """A step on arrays laid out over both processes."""

    def __init__(self, rank: int) -> None:
        mesh = Mesh(np.array(jax.devices()), ("d",))
        self.rank = rank
        self.whole = NamedSharding(mesh, PartitionSpec())
        self.rows = NamedSharding(mesh, PartitionSpec("d"))

    def placed(self, local: Any, sharding: NamedSharding) -> Any:
        return jax.make_array_from_process_local_data(sharding, local)

    def run(self, step: Callable[..., Any], w: Any, **options: Any) -> Any:
        """Run three steps, with a fault in one process's rows of the second."""
        watched = numcheck_jax.instrument(step, **options)
        try:
            for k in range(3):
                x = np.ones((4, 4), np.float32)
                if k == FAULTY_STEP and self.rank == FAULTY:
                    x[1] = 0.0
                w, _ = watched(w, self.placed(x, self.rows))
            if self.rank == 0:  # a process may ask alone, and none waits for another
                _ = watched.numcheck.findings
            watched.numcheck.close()
        except FloatingPointError:
            pass
        return watched.numcheck

    def replicated(self, **options: Any) -> Any:
        w = self.placed(np.full(4, 0.5, np.float32), self.whole)
        return self.run(jax.jit(step), w, **options)

    def laid_out(self) -> Any:
        """With layouts given to jit and inside it."""

        def placed_step(w: Any, x: Any) -> Any:
            return step(w, jax.lax.with_sharding_constraint(x * 1.0, self.rows))

        jitted = jax.jit(placed_step, in_shardings=(self.whole, self.rows))
        w = self.placed(np.full(4, 0.5, np.float32), self.whole)
        return self.run(jitted, w, on_error="record")

    def sharded_weights(self) -> Any:
        w = self.placed(np.full(2, 0.5, np.float32), self.rows)
        return self.run(jax.jit(step), w, on_error="record")


def told(monitor: Any) -> dict[str, Any]:
    return {
        "findings": [
            {
                "id": f.id,
                "op": f.site.op,
                "line": None if f.site.source is None else f.site.source.text,
                "rank": f.rank,
                "step": f.step,
                "why": [e.fields["why"] for e in f.evidence if e.key == "not_run"],
            }
            for f in monitor.findings
        ],
        "faults": [e.value for e in monitor.events if e.name == "fault"],
    }


def main(rank: int, port: int) -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    scenario = Scenario(rank)
    for monitor in (
        scenario.replicated(),
        scenario.replicated(on_error="record", lag=0),
        scenario.replicated(on_error="record", level="trace"),
        scenario.laid_out(),
        scenario.sharded_weights(),
    ):
        sys.stdout.write(json.dumps(told(monitor)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
