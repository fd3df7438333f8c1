"""Gradients scaled to unit length by hand; at the flat start their norm is zero."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "clip_by_zero_norm", "jax"
EXPECTED = dict(first_bad_op=("div",), phase="optimizer", cls="op-domain", cause="zero-norm", kind="nan", step=0, harm="output",
                note="g / ||g|| with g = 0", fix="g / maximum(||g||, eps)")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(5), (16, 3))

    def loss(w, x):
        return jnp.mean(jax.nn.relu(jnp.sum((x @ w) ** 2, axis=1) - 0.1))       # flat around w = 0

    @jax.jit
    def step(w, x):
        value, g = jax.value_and_grad(loss)(w, x)
        norm = jnp.sqrt(jnp.sum(g ** 2))
        return w - 0.1 * g / (jnp.maximum(norm, 1e-6) if fixed else norm), value

    return dict(fn=step, args=(0.01 * jnp.ones((3, 2)), x), batches=[x], steps=2, carries_state=True, loss_of=lambda o: o[1])
