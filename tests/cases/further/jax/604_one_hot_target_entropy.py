"""KL divergence to one-hot targets written as sum y (log y - log p)."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "one_hot_target_entropy", "jax"
EXPECTED = dict(first_bad_op=("log",), phase="forward", cls="op-domain", cause="log-zero", kind="-inf", step=0, harm="loss",
                note="0 * log 0 of the zeros in a one-hot row", fix="jax.scipy.special.xlogy, or optax's kl_divergence")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(4), (8, 3))
    y = jax.nn.one_hot(jnp.arange(8) % 4, 4)

    def loss(w, x, y):
        logp = jax.nn.log_softmax(x @ w)
        ylogy = jax.scipy.special.xlogy(y, y) if fixed else y * jnp.log(y)
        return jnp.mean(jnp.sum(ylogy - y * logp, axis=1))

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.zeros((3, 4)), x, y), steps=1, loss_of=lambda o: o[0])
