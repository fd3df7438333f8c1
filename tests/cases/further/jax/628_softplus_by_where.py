"""Softplus with jnp.where for large arguments: the loss is right, the gradient of the dropped branch is NaN."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "softplus_by_where", "jax"
EXPECTED = dict(first_bad_op=("exp",), phase="forward", cls="op-domain", cause="where-trap", kind="+inf", step=0, harm="output", row=2,
                note="120 is an ordinary logit here: the program means to handle it", fix="minimum(z, 20) inside the exp")


def build(fixed=False):
    x = jnp.array([1.0, -3.0, 120.0, 4.0])

    def loss(w, x):
        z = w * x
        e = jnp.exp(jnp.minimum(z, 20.0) if fixed else z)
        return jnp.sum(jnp.where(z > 20.0, z, jnp.log1p(e)))

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.ones(4), x), steps=1, loss_of=lambda o: o[0])
