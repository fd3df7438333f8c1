# SPDX-License-Identifier: Apache-2.0
"""One small program for every construct a step can be made of."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, PartitionSpec

if TYPE_CHECKING:
    from collections.abc import Callable

X = jax.random.normal(jax.random.key(0), (8, 4))
W = jax.random.normal(jax.random.key(1), (4, 4)) * 0.3
B = jnp.linspace(-1.0, 1.0, 4)


def plain(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ w) ** 2)


def scanned(w: Any, x: Any) -> Any:
    carry, ys = lax.scan(lambda c, v: (jnp.tanh(c @ w + v), c.sum()), x[0], x)
    return carry.sum() + ys.mean()


def looped(w: Any, x: Any) -> Any:
    def body(state: Any) -> Any:
        k, v = state
        return k + 1, jnp.cos(v @ w)

    return lax.while_loop(lambda s: s[0] < 5, body, (0, x))[1]


def branched(w: Any, x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda v: v @ w, lambda v: v @ w.T, x)


def remat(w: Any, x: Any) -> Any:
    block = jax.checkpoint(lambda v: jnp.sin(v @ w), policy=None)
    return jnp.sum(block(block(x)))


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return jnp.exp(x)


clipped.defvjp(
    lambda x: (jnp.exp(x), jnp.exp(x)), lambda r, ct: (jnp.clip(r * ct, -1.0, 1.0),)
)


def custom_vjp(w: Any, x: Any) -> Any:
    return clipped(x @ w).sum()


@jax.custom_jvp
def softened(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


softened.defjvp(lambda p, t: (softened(*p), jax.nn.sigmoid(p[0]) * t[0]))


def custom_jvp(w: Any, x: Any) -> Any:
    return softened(x @ w).sum()


def nested(w: Any, x: Any) -> Any:
    inner = jax.jit(lambda v: jax.jit(jnp.sin)(v @ w) + 1.0)
    return inner(inner(x)).sum()


def mapped(w: Any, x: Any) -> Any:
    return jax.vmap(plain, in_axes=(None, 0))(w, x)


def sharded(w: Any, x: Any) -> Any:
    mesh = Mesh(np.array(jax.devices()[:4]), ("d",))
    spec = PartitionSpec("d")
    local = jax.shard_map(
        lambda v: lax.psum(jnp.sin(v @ w), "d"),
        mesh=mesh,
        in_specs=spec,
        out_specs=PartitionSpec(),
    )
    return local(x)


def half(w: Any, x: Any) -> Any:
    y = (x.astype(jnp.float16) @ w.astype(jnp.float16)).astype(jnp.bfloat16)
    return jax.nn.softmax(y).astype(jnp.float8_e4m3fn), y.sum()


def dropped(w: Any, x: Any, key: Any) -> Any:
    return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x @ w, 0.0)


def complex_valued(w: Any, x: Any) -> Any:
    return jnp.fft.fft(x @ w), jnp.abs(jnp.fft.fft(x)).astype(jnp.int32)


def odd_tree(w: Any, x: Any) -> Any:
    return {"none": None, "deep": [(x @ w,), {}], "flag": x.sum() > 0, "int": 3}


_OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))


def trained(state: Any, x: Any) -> Any:
    w, inner = state
    loss, gradient = jax.value_and_grad(plain)(w, x)
    updates, inner = _OPTIMIZER.update(gradient, inner, w)
    return (optax.apply_updates(w, updates), inner), loss


STATE = (W, _OPTIMIZER.init(W))


def static(w: Any, x: Any, power: int, *, scale: float = 1.0) -> Any:
    return scale * jnp.sum((x @ w) ** power)


Program = tuple["Callable[..., Any]", tuple[Any, ...], dict[str, Any]]

PROGRAMS: dict[str, Program] = {
    "eager": (plain, (W, X), {}),
    "jit": (jax.jit(plain), (W, X), {}),
    "grad": (jax.grad(plain), (W, X), {}),
    "jit of value_and_grad": (jax.jit(jax.value_and_grad(plain)), (W, X), {}),
    "forward mode": (jax.jit(jax.jacfwd(plain)), (W, X), {}),
    "hessian": (jax.jit(jax.hessian(plain)), (W, X), {}),
    "scan": (jax.jit(jax.grad(scanned)), (W, X), {}),
    "while": (jax.jit(looped), (W, X), {}),
    "cond": (jax.jit(branched), (W, X), {}),
    "vmap of cond": (jax.jit(jax.vmap(branched, (None, 0))), (W, X[:, None]), {}),
    "remat": (jax.jit(jax.grad(remat)), (W, X), {}),
    "custom_vjp": (jax.jit(jax.grad(custom_vjp)), (W, X), {}),
    "custom_jvp": (jax.jit(jax.grad(custom_jvp)), (W, X), {}),
    "nested jit": (jax.jit(jax.grad(nested)), (W, X), {}),
    "vmap": (jax.jit(mapped), (W, X), {}),
    "shard_map": (jax.jit(sharded), (W, X), {}),
    "narrow formats": (jax.jit(half), (W, X), {}),
    "random key": (jax.jit(dropped), (W, X, jax.random.key(3)), {}),
    "complex": (jax.jit(complex_valued), (W, X), {}),
    "odd output tree": (odd_tree, (W, X), {}),
    "optimizer": (jax.jit(trained), (STATE, X), {}),
    "static arguments": (
        jax.jit(static, static_argnums=2, static_argnames="scale"),
        (W, X, 2),
        {"scale": 0.5},
    ),
    "partial": (functools.partial(static, power=3), (W, X), {}),
    "NumPy and Python numbers": (
        jax.jit(lambda w, x, lr: (w * lr, x.mean())),
        (np.ones(3, np.float32), np.arange(4.0, dtype=np.float32), 0.1),
        {},
    ),
}
