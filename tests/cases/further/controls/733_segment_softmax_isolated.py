"""Softmax over graph segments, two of which have no member."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "segment_softmax_isolated", "jax"
EXPECTED = dict(control=True, note="the empty segments' -inf maxima are replaced, and nothing is gathered from them")


def build(fixed=False):
    e = jax.random.normal(jax.random.key(0), (10,)); seg = jnp.array([0, 0, 1, 1, 1, 3, 3, 4, 4, 4])
    def f(w, e):
        z = e * w
        mx = jax.ops.segment_max(z, seg, 6)
        mx = jnp.where(jnp.isfinite(mx), mx, 0.0)
        u = jnp.exp(z - mx[seg])
        d = jax.ops.segment_sum(u, seg, 6)
        return jnp.sum((u / d[seg]) ** 2)
    return dict(fn=jax.jit(jax.value_and_grad(f)), args=(jnp.float32(2.0), e), steps=1, loss_of=lambda o: o[0])
