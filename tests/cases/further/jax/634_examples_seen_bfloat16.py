"""Number of batches seen, kept in bfloat16 in the training state, resumed at 250."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "examples_seen_bfloat16", "jax"
EXPECTED = dict(first_bad_op=("add",), phase="forward", cls="precision", cause="bf16-stagnation", kind="stagnation", step=6, harm="silent",
                note="sticks at 256 in the seventh step, long after the first was found healthy", fix="int32 or float32 counter")


def build(fixed=False):
    dt = jnp.float32 if fixed else jnp.bfloat16
    x = jax.random.normal(jax.random.key(0), (16, 3))

    @jax.jit
    def step(state, x):
        w, seen = state
        value, g = jax.value_and_grad(lambda w: jnp.mean((x @ w - x.sum(-1)) ** 2))(w)
        return (w - 0.1 * g, seen + jnp.asarray(1, dt)), value

    return dict(fn=step, args=((jnp.zeros(3), jnp.asarray(250, dt)), x), batches=[x], steps=9, carries_state=True, loss_of=lambda o: o[1])
