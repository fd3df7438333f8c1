"""Streaming softmax in a scan: the running maximum starts at -inf."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "streaming_softmax", "jax"
EXPECTED = dict(control=True, note="exp(-inf - m) = 0 rescales the empty start")


def build(fixed=False):
    k = jax.random.normal(jax.random.key(30), (8, 4))
    v = jax.random.normal(jax.random.key(31), (8, 4))

    def loss(q, k, v):
        def cell(c, kv):
            m, den, num = c
            s = q @ kv[0]
            new = jnp.maximum(m, s)
            a, e = jnp.exp(m - new), jnp.exp(s - new)
            return (new, a * den + e, a * num + e * kv[1]), None
        (_, den, num), _ = jax.lax.scan(cell, (-jnp.inf, 0.0, jnp.zeros(4)), (k, v))
        return jnp.sum((num / den) ** 2)

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.ones(4), k, v), steps=1, loss_of=lambda o: o[0])
