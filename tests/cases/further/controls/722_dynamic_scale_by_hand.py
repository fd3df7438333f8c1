"""float16 training that halves its own loss scale and keeps the old weights on overflow."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "dynamic_scale_by_hand", "jax"
EXPECTED = dict(control=True, allow_skips=True, note="overflowing gradients are selected away, the scale is halved")


def build(fixed=False):
    k1, k2 = jax.random.split(jax.random.key(22))
    x, y = jax.random.normal(k1, (16, 8), jnp.float16), jax.random.normal(k2, (16,))

    @jax.jit
    def step(state, batch):
        w, scale = state
        x, y = batch

        def loss(w):
            return scale * jnp.mean(((x @ w.astype(jnp.float16)).astype(jnp.float32) - y) ** 2)

        value, g = jax.value_and_grad(loss)(w)
        g = g / scale
        ok = jnp.all(jnp.isfinite(g))
        return (jnp.where(ok, w - 0.05 * g, w), jnp.where(ok, scale, scale / 2)), value / scale

    return dict(fn=step, args=((jnp.zeros(8), jnp.float32(2.0 ** 24)), (x, y)), batches=[(x, y)], steps=12, carries_state=True, loss_of=lambda o: o[1])
