"""Unnormalised float16 softmax on logits of 12: exp passes 65504."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "half_softmax_by_hand", "jax"
EXPECTED = dict(first_bad_op=("exp",), phase="forward", cls="precision", cause="fp16-exp-overflow", kind="+inf", step=0, harm="loss",
                note="exp(12) = 162755", fix="jax.nn.softmax")


def build(fixed=False):
    z = jnp.array([[12.0, 3.0, 1.0], [1.0, 2.0, 3.0]], jnp.float16)

    def loss(b, z):
        e = jax.nn.softmax(z + b) if fixed else jnp.exp(z + b)
        p = e / jnp.sum(e, -1, keepdims=True)
        return jnp.mean((p.astype(jnp.float32) - 0.3) ** 2)

    return dict(fn=jax.value_and_grad(loss), args=(jnp.zeros(3, jnp.float16), z), steps=1, loss_of=lambda o: o[0])
