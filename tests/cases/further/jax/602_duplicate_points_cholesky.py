"""Gaussian process with two identical inputs and no jitter: the kernel matrix is singular."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "duplicate_points_cholesky", "jax"
EXPECTED = dict(first_bad_op=("cholesky",), phase="forward", cls="op-domain", cause="not-positive-definite", kind="nan", step=0, harm="loss",
                note="jax's cholesky answers NaN instead of raising", fix="add 1e-4 I")


def build(fixed=False):
    x = jnp.array([0.0, 0.5, 0.5, 0.51, 1.0, 1.01, 1.02, 2.0])
    y = jnp.sin(x)

    def nll(log_scale, x):
        k = jnp.exp(-0.5 * (x[:, None] - x) ** 2 / jnp.exp(log_scale)) + (1e-3 if fixed else 0.0) * jnp.eye(8)
        low = jnp.linalg.cholesky(k)
        a = jax.scipy.linalg.cho_solve((low, True), y)
        return 0.5 * y @ a + jnp.log(jnp.diag(low)).sum()

    return dict(fn=jax.jit(jax.value_and_grad(nll)), args=(jnp.float32(1.0), x), steps=1, loss_of=lambda o: o[0])
