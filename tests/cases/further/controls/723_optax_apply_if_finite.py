"""optax.apply_if_finite around Adam, on healthy batches."""
import jax, jax.numpy as jnp, optax

NAME, FRAMEWORK = "optax_apply_if_finite", "jax"
EXPECTED = dict(control=True, note="healthy batches under apply_if_finite")


def build(fixed=False):
    tx = optax.apply_if_finite(optax.adam(1e-2), 5)
    x = jax.random.normal(jax.random.key(23), (16, 3))

    @jax.jit
    def step(state, x):
        w, s = state
        value, g = jax.value_and_grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w)
        up, s = tx.update(g, s, w)
        return (optax.apply_updates(w, up), s), value

    return dict(fn=step, args=((jnp.zeros(3), tx.init(jnp.zeros(3))), x), batches=[x], steps=5, carries_state=True, loss_of=lambda o: o[1])
