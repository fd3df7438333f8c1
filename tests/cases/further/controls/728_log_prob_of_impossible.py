"""Evaluation returns log-probabilities, -inf for impossible events, next to a finite loss."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "log_prob_of_impossible", "jax"
EXPECTED = dict(control=True, note="-inf is the right log-probability of an impossible event, masked in the loss")


def build(fixed=False):
    allowed = jnp.array([True, True, False, True])

    def loss(z, x):
        logp = jax.nn.log_softmax(jnp.where(allowed, z * x, -jnp.inf))
        return -jnp.where(allowed, logp, 0.0).mean(), logp

    return dict(fn=jax.jit(jax.value_and_grad(loss, has_aux=True)), args=(jnp.ones(4), jnp.array([1.0, 2.0, 3.0, 0.5])), steps=1, loss_of=lambda o: o[0][0])
