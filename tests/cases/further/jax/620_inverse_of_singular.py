"""Least squares by the normal equations with two equal columns: the Gram matrix is singular."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "inverse_of_singular", "jax"
EXPECTED = dict(first_bad_op=("triangular_solve", "custom_linear_solve"), phase="forward", cls="op-domain", cause="singular-matrix", kind="nan", step=0, harm="loss",
                note="lu is finite with an exact zero pivot; the solve with its upper half divides by it", fix="ridge term, or lstsq")


def build(fixed=False):
    x = jnp.array([[1.0, 1.0, 2.0], [2.0, 2.0, 1.0], [3.0, 3.0, 0.0], [4.0, 4.0, 5.0]])
    y = jnp.array([1.0, 2.0, 3.0, 4.0])

    def loss(s, x):
        z = x * s
        gram = z.T @ z + (1e-2 if fixed else 0.0) * jnp.eye(3)
        return jnp.mean((z @ (jnp.linalg.inv(gram) @ (z.T @ y)) - y + 0.1) ** 2)

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.float32(1.0), x), steps=1, loss_of=lambda o: o[0])
