# SPDX-License-Identifier: Apache-2.0
"""Every construct of JAX around one function, in which a fault can be planted."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from tests.jax.interpreter.further_constructs import FURTHER

if TYPE_CHECKING:
    from collections.abc import Callable

    Inner = Callable[[Any], Any]

# The fault sits in element 5 of eight, or late in two thousand.
BAD = 5
X = jnp.ones(8).at[BAD].set(0.0)
LATE = 1215
LONG = jnp.ones(2000).at[LATE].set(0.0)


def logarithm(v: Any) -> Any:
    return jnp.log(v)


def root(v: Any) -> Any:
    return jnp.sqrt(v)


def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:4]), ("d",))


def nested_jit(h: Inner) -> Inner:
    return lambda x: jax.jit(lambda v: jax.jit(h)(v) + 1.0)(x).sum()


def scan(h: Inner) -> Inner:
    return lambda x: lax.scan(lambda c, v: (c + h(v), None), 0.0, x)[0]


def reversed_scan(h: Inner) -> Inner:
    return lambda x: lax.scan(lambda c, v: (c, h(v)), 0.0, x, reverse=True)[1].sum()


def nested_scan(h: Inner) -> Inner:
    def row(c: Any, v: Any) -> Any:
        return lax.scan(lambda d, u: (d + h(u), None), c, v)[0], None

    return lambda x: lax.scan(row, 0.0, x.reshape(4, 2))[0]


def while_loop(h: Inner) -> Inner:
    def body(state: Any, x: Any) -> Any:
        i, total = state
        return i + 1, total + h(x[i])

    return lambda x: lax.while_loop(
        lambda s: s[0] < x.size, functools.partial(body, x=x), (0, 0.0)
    )[1]


def cond(h: Inner) -> Inner:
    return lambda x: lax.cond(x.sum() > 0, h, lambda v: v, x).sum()


def switch(h: Inner) -> Inner:
    return lambda x: lax.switch(x.size - 6, [lambda v: v, lambda v: -v, h], x).sum()


def mapped_cond(h: Inner) -> Inner:
    one = functools.partial(lax.cond, true_fun=h, false_fun=lambda v: v)
    return lambda x: jax.vmap(lambda v: one(v > -1, operand=v))(x).sum()


def mapped_scan(h: Inner) -> Inner:
    one = scan(h)
    return lambda x: jax.vmap(one)(x.reshape(4, 2)).sum()


def custom_jvp(h: Inner) -> Inner:
    f = jax.custom_jvp(h)
    f.defjvp(lambda p, t: jax.jvp(h, p, t))
    return lambda x: f(x).sum()


def custom_vjp(h: Inner) -> Inner:
    f = jax.custom_vjp(h)
    f.defvjp(lambda v: (h(v), v), lambda v, ct: jax.vjp(h, v)[1](ct))
    return lambda x: f(x).sum()


def remat(h: Inner) -> Inner:
    return jax.checkpoint(lambda v: jnp.sum(h(v) * 2.0))


def remat_with_policy(h: Inner) -> Inner:
    policy = jax.checkpoint_policies.dots_saveable
    return jax.checkpoint(lambda v: jnp.sum(h(v) @ jnp.ones((8, 2))), policy=policy)


def sharded(h: Inner, **options: Any) -> Inner:
    return jax.shard_map(
        lambda v: lax.psum(jnp.sum(h(v)), "d"),
        mesh=_mesh(),
        in_specs=PartitionSpec("d"),
        out_specs=PartitionSpec(),
        **options,
    )


def sharded_unchecked(h: Inner) -> Inner:
    return sharded(h, check_vma=False)


def pmapped(h: Inner) -> Inner:
    local = jax.pmap(lambda v: lax.psum(jnp.sum(h(v)), "i"), axis_name="i")
    return lambda x: local(x.reshape(4, 2))[0]


def reference(h: Inner) -> Inner:
    def f(x: Any) -> Any:
        ref = jax.new_ref(x)
        ref[...] = h(ref[...])
        return ref[...].sum()

    return f


def reference_in_scan(h: Inner) -> Inner:
    def f(x: Any) -> Any:
        ref = jax.new_ref(jnp.zeros(()))

        def body(c: Any, v: Any) -> Any:
            ref[...] += h(v)
            return c, None

        lax.scan(body, 0.0, x)
        return ref[...]

    return f


class Inner2(nn.Module):
    inner: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return self.inner(x) * self.param("w", nn.initializers.ones, ())


class Outer(nn.Module):
    inner: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return Inner2(self.inner, name="block")(x)


def linen(h: Inner) -> Inner:
    module = Outer(h)
    params = {"params": {"block": {"w": jnp.ones(())}}}
    return lambda x: module.apply(params, x).sum()


# Construct, the iteration of its fault, and whether it has a reverse derivative.
CONSTRUCTS: dict[str, tuple[Callable[[Inner], Inner], tuple[int, ...], bool]] = {
    "nested jit": (nested_jit, (), True),
    "scan": (scan, (BAD,), True),
    "reversed scan": (reversed_scan, (BAD,), True),
    "nested scan": (nested_scan, (2, 1), True),
    "while": (while_loop, (BAD,), False),
    "cond": (cond, (), True),
    "switch": (switch, (), True),
    "vmap of cond": (mapped_cond, (), True),
    "vmap of scan": (mapped_scan, (1,), True),
    "custom_jvp": (custom_jvp, (), True),
    "custom_vjp": (custom_vjp, (), True),
    "remat": (remat, (), True),
    "remat with a policy": (remat_with_policy, (), True),
    "shard_map": (sharded, (), True),
    "shard_map without vma": (sharded_unchecked, (), True),
    "pmap": (pmapped, (), True),
    "reference": (reference, (), False),
    "reference in a scan": (reference_in_scan, (BAD,), False),
    "Linen": (linen, (), True),
    **FURTHER,
}
