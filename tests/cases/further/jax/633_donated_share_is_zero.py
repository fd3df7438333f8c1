"""Weights projected onto what is not negative, their entropy taken; the state is donated."""
import functools
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "donated_share_is_zero", "jax"
EXPECTED = dict(first_bad_op=("log",), phase="forward", cls="op-domain", cause="log-zero", kind="-inf", step=2, harm="loss",
                note="the state that holds the zero is consumed by the step that fails on it", fix="log(w + 1e-6)")


def build(fixed=False):
    def loss(w, cost):
        return jnp.sum(w * cost) + 0.1 * jnp.sum(w * jnp.log(w + (1e-6 if fixed else 0.0)))

    @functools.partial(jax.jit, donate_argnums=0)
    def step(w, cost):
        value, g = jax.value_and_grad(loss)(w, cost)
        return jnp.maximum(w - 0.15 * g, 0.0), value

    cost = jnp.array([1.0, 2.0, -1.0])
    return dict(fn=step, args=(jnp.array([0.2, 0.5, 0.3]), cost), batches=[cost], steps=4, carries_state=True, loss_of=lambda o: o[1])
