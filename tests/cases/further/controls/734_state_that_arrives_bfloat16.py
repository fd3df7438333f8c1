"""bfloat16 states that come to a halt because they have arrived, and one that starts at inf."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "state_that_arrives_bfloat16", "jax"
EXPECTED = dict(control=True, note="an average of a constant, a smallest loss and a counter that starts again lose nothing")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(0), (8, 3))
    small = lambda v: jnp.asarray(v, jnp.bfloat16)

    @jax.jit
    def step(state, x):
        w, mean, best, turn = state
        value, g = jax.value_and_grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w)
        turn = jnp.where(turn >= 4, jnp.zeros_like(turn), turn + 1)
        return (w - 0.1 * g, 0.5 * mean + 0.5 * small(3.0), jnp.minimum(best, value.astype(jnp.bfloat16)), turn), value

    state = jnp.zeros(3), small(0.0), small(jnp.inf), small(0.0)
    return dict(fn=step, args=(state, x), batches=[x], steps=20, carries_state=True, loss_of=lambda o: o[1])
