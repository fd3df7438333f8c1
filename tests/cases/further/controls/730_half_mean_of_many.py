"""jnp.mean over 100 000 float16 values: jax accumulates in float32."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "half_mean_of_many", "jax"
EXPECTED = dict(control=True, note="the sum of 5e6 never exists in float16")


def build(fixed=False):
    x = 50.0 + jax.random.normal(jax.random.key(32), (100_000,), jnp.float16)
    loss = lambda w, x: jnp.mean(x * w).astype(jnp.float32)
    return dict(fn=jax.jit(loss), args=(jnp.float16(1.0), x), steps=1, loss_of=lambda o: o)
