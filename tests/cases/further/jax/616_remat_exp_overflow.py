"""jax.checkpoint around a block with exp of large activations."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "remat_exp_overflow", "jax"
EXPECTED = dict(first_bad_op=("exp",), phase="forward", cls="op-domain", cause="exp-overflow", kind="+inf", step=0, harm="loss",
                note="log(1 + exp(z)) by hand, z about 200", fix="jax.nn.softplus")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(16), (8, 4))

    @jax.checkpoint
    def block(w, x):
        z = 100.0 * (x @ w)
        return (jax.nn.softplus(z) if fixed else jnp.log(1.0 + jnp.exp(z))) / 100.0

    loss = lambda w, x: jnp.mean(block(w, x))
    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.ones((4, 2)), x), steps=1, loss_of=lambda o: o[0])
