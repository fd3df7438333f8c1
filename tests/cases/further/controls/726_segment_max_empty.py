"""segment_max of an empty segment is -inf; exp sends it to zero."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "segment_max_empty", "jax"
EXPECTED = dict(control=True, note="-inf only marks the empty segment, which nobody reads")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(27), (6, 3))
    seg = jnp.array([0, 0, 1, 1, 1, 3])

    def loss(w, x):
        s = x @ w
        top = jax.lax.stop_gradient(jax.ops.segment_max(s, seg, 4))
        e = jnp.exp(s - top[seg])
        return jnp.mean((e / jax.ops.segment_sum(e, seg, 4)[seg] - 0.3) ** 2), top

    return dict(fn=jax.jit(jax.value_and_grad(loss, has_aux=True)), args=(jnp.ones(3), x), steps=1, loss_of=lambda o: o[0][0])
