"""sqrt(x * x) at 300 in float16 under jit: the compiled program keeps the square in float32."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "half_root_of_square_jit", "jax"
EXPECTED = dict(control=True, replay_differs=True, note="op by op 300^2 is inf in float16; the user's program returns 300")


def build(fixed=False):
    x = jnp.array([300.0, 2.0, 7.0], jnp.float16)

    def loss(w, x):
        z = x * w
        return jnp.mean(jnp.sqrt(z * z).astype(jnp.float32))

    return dict(fn=jax.jit(loss), args=(jnp.float16(1.0), x), steps=2, loss_of=lambda o: o)
