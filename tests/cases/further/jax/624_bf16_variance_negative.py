"""Variance by moments in bfloat16: E[x^2] - E[x]^2 is negative by rounding."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "bf16_variance_negative", "jax"
EXPECTED = dict(first_bad_op=("sqrt",), phase="forward", cls="precision", cause="cancellation", kind="nan", step=0, harm="loss",
                note="fp32 keeps the variance positive", fix="jnp.var, in float32")


def build(fixed=False):
    x = (jnp.array([[100.0, 101.0, 100.0, 101.5], [3.0, 3.02, 3.0, 3.03], [57.0, 57.5, 57.25, 57.0], [9.0, 9.1, 9.05, 9.0]])).astype(jnp.float32 if fixed else jnp.bfloat16)

    def loss(w, x):
        z = x * w
        sq, m = (z * z).mean(1), z.mean(1)
        return jnp.mean((1.0 / (jnp.sqrt(sq - m * m) + 1.0)).astype(jnp.float32))

    return dict(fn=jax.value_and_grad(loss), args=(jnp.ones(4, x.dtype), x), steps=1, loss_of=lambda o: o[0])
