"""float16 training with a hand-written dynamic scale and an average of the weights."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "dynamic_scale_and_average", "jax"
EXPECTED = dict(control=True, note="a skipped step keeps the weights; the scale then settles")


def build(fixed=False):
    w = jax.random.normal(jax.random.key(0), (16, 8)) * 0.2
    x = jax.random.normal(jax.random.key(1), (32, 16)); y = jnp.sin(x[:, :8])
    def loss(w, x, y, s): return jnp.mean((jnp.tanh(x.astype(jnp.float16) @ w.astype(jnp.float16)).astype(jnp.float32) - y) ** 2) * s
    @jax.jit
    def step(st, b):
        w, ema, s, n = st
        l, g = jax.value_and_grad(loss)(w, *b, s)
        g = g / s
        ok = jnp.isfinite(g).all()
        w2 = jnp.where(ok, w - 0.1 * g, w)
        s2 = jnp.where(ok, jnp.where(n > 3, s * 2, s), s / 2)
        return (w2, 0.99 * ema + 0.01 * w2, s2, jnp.where(ok, n + 1, 0)), l / s
    return dict(fn=step, args=((w, w, jnp.float32(2.0 ** 15), jnp.int32(0)),), steps=12, carries_state=True, batches=[(x, y)], loss_of=lambda o: o[1])
