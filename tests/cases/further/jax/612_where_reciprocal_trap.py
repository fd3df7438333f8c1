"""1 / x guarded by where: the derivative -1 / x^2 is not guarded."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "where_reciprocal_trap", "jax"
EXPECTED = dict(first_bad_op=("integer_pow", "div", "mul", "neg"), phase="backward", cls="op-domain", cause="where-trap", kind=("+inf", "nan", "-inf"), step=0, harm="output",
                note="the forward 1/0 is discarded, 0 * inf in the backward is not", fix="where inside the division too")


def build(fixed=False):
    x = jnp.array([0.0, 0.5, 2.0, 0.0])

    def loss(w, x):
        z = x * w
        inv = jnp.where(z > 0, 1.0 / (jnp.where(z > 0, z, 1.0) if fixed else z), 0.0)
        return jnp.sum(inv ** 2)

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.float32(1.5), x), steps=1, loss_of=lambda o: o[0])
