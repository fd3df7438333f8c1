# SPDX-License-Identifier: Apache-2.0
"""What watching a JAX training step costs, as ratios to the plain step.

Variants run interleaved, forwards and backwards, timed by the process's CPU time;
each ratio is the median of the paired ratios. A second plain variant (A/A) shows the
noise. Beside numcheck stand ``checkify.float_checks`` and ``jax_debug_nans`` with
``jax_debug_infs``. The second table is the CPU time of tracing, lowering and compiling.

    python benchmarks/jax_overhead.py [--rounds 15] [--case mlp transformer]
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
import warnings
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import optax
from jax.experimental import checkify

import numcheck_jax
from numcheck_jax.compiled import compiled_trace

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH, HEADS, LAYERS, WORDS = 256, 4, 4, 1024
OPTIMIZER = optax.adam(1e-3)
CASES = ("mlp", "transformer", "transformer bf16")


def normalised(x: Any, gain: Any) -> Any:
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return (centred * scale).astype(x.dtype) * gain


def attention(p: Any, x: Any) -> Any:
    batch, length, width = x.shape
    parts = jnp.split(x @ p["qkv"], 3, axis=-1)
    shape = (batch, length, HEADS, width // HEADS)
    q, k, v = (t.reshape(shape) for t in parts)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // HEADS) ** -0.5
    visible = jnp.tril(jnp.ones((length, length), bool))
    scores = jnp.where(visible, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores.astype(jnp.float32)).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
    return mixed @ p["out"]


def transformer_loss(params: Any, batch: Any, dtype: Any) -> Any:
    words, targets = batch
    params = jax.tree.map(lambda p: p.astype(dtype), params)
    x = params["words"][words] + params["places"][: words.shape[1]]
    for i, p in enumerate(params["blocks"]):
        with jax.named_scope(f"block{i}"):
            x = x + attention(p, normalised(x, p["gain1"]))
            hidden = jax.nn.gelu(normalised(x, p["gain2"]) @ p["up"])
            x = x + hidden @ p["down"]
    logits = (normalised(x, params["gain"]) @ params["words"].T).astype(jnp.float32)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    return losses.mean()


def mlp_loss(params: Any, batch: Any) -> Any:
    x, y = batch
    for w in params[:-1]:
        x = jax.nn.relu(x @ w)
    return jnp.mean((x @ params[-1] - y) ** 2)


def transformer(length: int = 128) -> tuple[Any, Any]:
    keys = iter(jax.random.split(jax.random.key(0), 64))

    def weights(*shape: int) -> Any:
        return jax.random.normal(next(keys), shape) * 0.02

    blocks = [
        {
            "gain1": jnp.ones(WIDTH),
            "gain2": jnp.ones(WIDTH),
            "qkv": weights(WIDTH, 3 * WIDTH),
            "out": weights(WIDTH, WIDTH),
            "up": weights(WIDTH, 4 * WIDTH),
            "down": weights(4 * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]
    params = {
        "words": weights(WORDS, WIDTH),
        "places": weights(length, WIDTH),
        "gain": jnp.ones(WIDTH),
        "blocks": blocks,
    }
    words = jax.random.randint(next(keys), (8, length), 0, WORDS)
    return params, (words, jnp.roll(words, -1, 1))


def case(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a training step and its arguments."""
    if name == "mlp":
        keys = jax.random.split(jax.random.key(0), 4)
        params: Any = [jax.random.normal(k, (WIDTH, WIDTH)) / 16 for k in keys[:3]]
        batch: Any = (jax.random.normal(keys[3], (64, WIDTH)), jnp.ones((64, WIDTH)))
        loss: Callable[..., Any] = mlp_loss
    else:
        params, batch = transformer()
        dtype = jnp.bfloat16 if name.endswith("bf16") else jnp.float32
        loss = functools.partial(transformer_loss, dtype=dtype)

    def step(params: Any, state: Any, batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, batch)
        updates, state = OPTIMIZER.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    return step, (params, OPTIMIZER.init(params), batch)


def instrumented(step: Any, args: Any, policy: Any, measure: Any = "range") -> Any:
    closed = jax.jit(step).trace(*args).jaxpr
    made = compiled_trace(closed, policy=policy, measure=measure)
    return lambda *xs: made.function(*jax.tree.leaves(xs))


def with_debug_nans(step: Any) -> Any:
    plain = jax.jit(step)

    def checked(*args: Any) -> Any:
        with jax.debug_nans(True), jax.debug_infs(True):
            return plain(*args)

    return checked


def with_checkify(step: Any) -> Any:
    checked = jax.jit(checkify.checkify(step, errors=checkify.float_checks))

    def run(*args: Any) -> Any:
        error, out = checked(*args)
        error.throw()
        return out

    return run


def variants(step: Any, args: Any) -> dict[str, Any]:
    watch = functools.partial(numcheck_jax.instrument, audit_first=False)
    return {
        "plain": jax.jit(step),
        "plain again (A/A)": jax.jit(functools.partial(step)),
        "numcheck watch": watch(jax.jit(step)),
        "numcheck anchors": watch(jax.jit(step), level="anchors"),
        "numcheck trace": watch(jax.jit(step), level="trace"),
        "rows of anchors": jax.jit(instrumented(step, args, "anchors")),
        "rows of risky operators": jax.jit(instrumented(step, args, "risky")),
        "rows of all operators": jax.jit(instrumented(step, args, "all", "moments")),
        "the same with counts": jax.jit(instrumented(step, args, "all", "lean")),
        "checkify.float_checks": with_checkify(step),
        "jax_debug_nans and infs": with_debug_nans(step),
    }


def measure(
    steps: dict[str, Any],
    args: Any,
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        jax.block_until_ready(step(*args))
        jax.block_until_ready(step(*args))
    for turn in range(rounds):
        for name in list(steps) if turn % 2 else reversed(list(steps)):
            start = clock()
            jax.block_until_ready(steps[name](*args))
            times[name].append(clock() - start)
    return times


def compile_seconds(make: Callable[[], Any], args: Any) -> float:
    jax.clear_caches()
    start = time.process_time()
    jax.jit(make()).lower(*args).compile()
    return time.process_time() - start


def compile_times(step: Any, args: Any) -> dict[str, float]:
    made: dict[str, Callable[[], Any]] = {
        "plain": lambda: functools.partial(step),
        "plain again (A/A)": lambda: functools.partial(step),
        "anchors": lambda: instrumented(step, args, "anchors"),
        "risky operators": lambda: instrumented(step, args, "risky"),
        "all operators": lambda: instrumented(step, args, "all", "moments"),
        "checkify.float_checks": lambda: checkify.checkify(
            step, errors=checkify.float_checks
        ),
    }
    return {name: compile_seconds(make, args) for name, make in made.items()}


def show(title: str, times: dict[str, list[float]]) -> None:
    plain = times["plain"]
    print(f"{title}: plain {statistics.median(plain) * 1e3:.2f} ms")
    for name, taken in times.items():
        ratios = [t / p for t, p in zip(taken, plain, strict=True)]
        print(f"  {name:28} {statistics.median(ratios):6.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--case", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--no-compile", action="store_true")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in chosen.case:
        step, args = case(name)
        rounds = chosen.rounds * (20 if name == "mlp" else 1)
        show(f"{name}, a step", measure(variants(step, args), args, rounds))
        if not chosen.no_compile:
            seconds = compile_times(step, args)
            show(f"{name}, compilation", {k: [s] for k, s in seconds.items()})


if __name__ == "__main__":
    main()
