# SPDX-License-Identifier: Apache-2.0
"""Constructs in lanes, with effects, with keys and narrow leaves, and laid out."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    Inner = Callable[[Any], Any]
    Construct = Callable[[Inner], Inner]


def _lanes(one: Inner) -> Inner:
    return lambda x: jax.vmap(one)(x.reshape(4, 2)).sum()


def vmap_of_while(h: Inner) -> Inner:
    def one(v: Any) -> Any:
        def body(state: Any) -> Any:
            i, total = state
            return i + 1, total + h(v[i])

        # Lanes end at different times, so that frozen ones are run as well.
        end = jnp.where(v[0] > 0, 2, 3)
        return lax.while_loop(lambda s: s[0] < end, body, (0, 0.0))[1]

    return _lanes(one)


def vmap_of_jit(h: Inner) -> Inner:
    return _lanes(jax.jit(lambda v: h(v) * 2.0))


def vmap_of_remat(h: Inner) -> Inner:
    return _lanes(jax.checkpoint(lambda v: jnp.sum(h(v) * 2.0)))


def vmap_of_custom_jvp(h: Inner) -> Inner:
    f = jax.custom_jvp(h)
    f.defjvp(lambda p, t: jax.jvp(h, p, t))
    return _lanes(f)


def vmap_of_custom_vjp(h: Inner) -> Inner:
    f = jax.custom_vjp(h)
    f.defvjp(lambda v: (h(v), v), lambda v, ct: jax.vjp(h, v)[1](ct))
    return _lanes(f)


def vmap_of_shard_map(h: Inner) -> Inner:
    mesh = Mesh(np.array(jax.devices()[:2]), ("d",))
    spec = PartitionSpec("d")
    return _lanes(jax.shard_map(h, mesh=mesh, in_specs=spec, out_specs=spec))


def fori_loop(h: Inner) -> Inner:
    return lambda x: lax.fori_loop(0, 8, lambda i, t: t + h(x[i]), 0.0)


def mapped_rows(h: Inner) -> Inner:
    return lambda x: lax.map(h, x).sum()


def associative_scan(h: Inner) -> Inner:
    return lambda x: lax.associative_scan(jnp.add, h(x))[-1]


def debug_print(h: Inner) -> Inner:
    def f(x: Any) -> Any:
        y = h(x)
        jax.debug.print("", ordered=False)
        return y.sum()

    return f


def debug_callback(h: Inner) -> Inner:
    def f(x: Any) -> Any:
        y = h(x)
        jax.debug.callback(lambda _: None, y)
        return y.sum()

    return f


def _with_io(h: Inner, *, ordered: bool) -> Inner:
    def f(x: Any) -> Any:
        io_callback(lambda _: None, None, lax.stop_gradient(x), ordered=ordered)
        return h(x).sum()

    return f


def random_key(h: Inner) -> Inner:
    def f(x: Any) -> Any:
        key, _ = jax.random.split(jax.random.key(0))
        kept = jax.random.bernoulli(key, 0.5, x.shape)
        return (h(x) * jnp.where(kept, 1.0, 2.0)).sum()

    return f


def narrow_leaves(h: Inner) -> Inner:
    scale = jnp.arange(1, 9).astype(jnp.int4)
    shift = jnp.ones(8, jnp.float8_e4m3fn)
    return lambda x: (
        h(x) * scale.astype(jnp.float32) + shift.astype(jnp.float32)
    ).sum()


def partial_manual(h: Inner) -> Inner:
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
    local = jax.shard_map(
        lambda v: lax.psum(jnp.sum(h(v)), "a"),
        mesh=mesh,
        in_specs=PartitionSpec("a"),
        out_specs=PartitionSpec(),
        axis_names={"a"},
    )
    return jax.jit(local)


def laid_out(h: Inner) -> Inner:
    mesh = Mesh(np.array(jax.devices()[:4]), ("d",))
    rows = NamedSharding(mesh, PartitionSpec("d"))
    return lambda x: lax.with_sharding_constraint(h(x), rows).sum()


# Construct, the iteration of its fault, and whether it has a reverse derivative.
FURTHER: dict[str, tuple[Construct, tuple[int, ...], bool]] = {
    "vmap of while": (vmap_of_while, (1,), False),
    "vmap of jit": (vmap_of_jit, (), True),
    "vmap of remat": (vmap_of_remat, (), True),
    "vmap of custom_jvp": (vmap_of_custom_jvp, (), True),
    "vmap of custom_vjp": (vmap_of_custom_vjp, (), True),
    "vmap of shard_map": (vmap_of_shard_map, (), True),
    "fori_loop": (fori_loop, (5,), True),
    "map": (mapped_rows, (5,), True),
    "associative_scan": (associative_scan, (), True),
    "debug.print": (debug_print, (), True),
    "debug.callback": (debug_callback, (), True),
    "io_callback": (functools.partial(_with_io, ordered=False), (), True),
    "ordered io_callback": (functools.partial(_with_io, ordered=True), (), True),
    "random key": (random_key, (), True),
    "int4 and float8 leaves": (narrow_leaves, (), True),
    "shard_map of one axis": (partial_manual, (), True),
    "sharding constraint": (laid_out, (), True),
}
