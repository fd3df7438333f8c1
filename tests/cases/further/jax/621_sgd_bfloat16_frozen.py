"""Weights in bfloat16, learning rate 1e-4, plain SGD: nothing moves."""
import jax, jax.numpy as jnp, optax

NAME, FRAMEWORK = "sgd_bfloat16_frozen", "jax"
EXPECTED = dict(first_bad_op=("add", "add_any", "sub"), phase="optimizer", cls="precision", cause="bf16-stagnation", kind="stagnation", step=0, harm="silent",
                note="updates are below half a step of bfloat16", fix="float32 master weights")


def build(fixed=False):
    dtype = jnp.float32 if fixed else jnp.bfloat16
    tx = optax.sgd(1e-4)
    x = jax.random.normal(jax.random.key(21), (32, 8))
    y = x @ jnp.linspace(0.4, 1.0, 8)

    @jax.jit
    def step(state, batch):
        w, s = state
        f = lambda w: jnp.mean((batch[0] @ w.astype(jnp.float32) - batch[1]) ** 2)
        value, g = jax.value_and_grad(f)(w)
        up, s = tx.update(g, s, w)
        return (optax.apply_updates(w, up), s), value

    w = jnp.linspace(0.5, 0.9, 8).astype(dtype)
    return dict(fn=step, args=((w, tx.init(w)), (x, y)), batches=[(x, y)], steps=3, carries_state=True, loss_of=lambda o: o[1])
