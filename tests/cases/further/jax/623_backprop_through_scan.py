"""Gradients through 300 iterations of a chaotic tanh recurrence with gain 4."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "backprop_through_scan", "jax"
EXPECTED = dict(first_bad_op=("mul", "dot_general"), phase="backward", cls="dynamics", cause="exploding-gradient", kind=("+inf", "-inf", "inf"), step=0, harm="output",
                note="states stay below 1, derivatives grow by a factor per iteration", fix="a gain below one, truncated backpropagation")


def build(fixed=False):
    gain = 0.9 if fixed else 4.0

    def loss(w, h):
        def cell(h, _):
            return jnp.sin(w * h), None
        h, _ = jax.lax.scan(cell, h, None, length=300)
        return jnp.mean(h)

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.float32(gain), jnp.array([0.3, 0.7, 0.1])), steps=1, loss_of=lambda o: o[0])
