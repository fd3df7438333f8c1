"""log n! from an int32 product: 13! no longer fits."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "factorial_in_int32", "jax"
EXPECTED = dict(first_bad_op=("log",), phase="forward", cls="data", cause="int-overflow", kind="nan", step=1, harm="loss", row=2,
                root_op="int32 product wraps negative", note="17! wraps to a negative number in int32", fix="lgamma(n + 1)")


def build(fixed=False):
    def loss(w, n):
        below = jnp.arange(1, 21)[None] <= n[:, None]
        fact = jnp.prod(jnp.where(below, jnp.arange(1, 21)[None], 1), axis=1)
        logfact = jax.lax.lgamma(n + 1.0) if fixed else jnp.log(fact.astype(jnp.float32))
        rate = jax.nn.softplus(w)
        return jnp.mean(rate - n * jnp.log(rate) + logfact)

    @jax.jit
    def step(w, n):
        value, g = jax.value_and_grad(loss)(w, n)
        return w - 0.01 * g, value

    batches = [jnp.array([3, 5, 2]), jnp.array([4, 1, 17])]
    return dict(fn=step, args=(jnp.float32(1.0), batches[0]), batches=batches, steps=2, carries_state=True, loss_of=lambda o: o[1])
