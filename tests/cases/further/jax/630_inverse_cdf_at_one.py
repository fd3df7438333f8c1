"""Normal samples through the inverse error function; one of the given quantiles is exactly 1."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "inverse_cdf_at_one", "jax"
EXPECTED = dict(first_bad_op=("erf_inv",), phase="forward", cls="op-domain", cause="erfinv-one", kind="+inf", step=1, harm="loss", row=1,
                note="the quantile 1 is legal and its normal sample is infinite", fix="clip to [1e-6, 1 - 1e-6]")


def build(fixed=False):
    def loss(w, u):
        u = jnp.clip(u, 1e-6, 1 - 1e-6) if fixed else u
        return jnp.mean((jnp.sqrt(2.0) * jax.lax.erf_inv(2 * u - 1) * w[0] + w[1] - 1.0) ** 2)

    @jax.jit
    def step(w, u):
        l, g = jax.value_and_grad(loss)(w, u)
        return w - 0.1 * g, l

    batches = [jnp.array([0.2, 0.5, 0.9]), jnp.array([0.1, 1.0, 0.4])]
    return dict(fn=step, args=(jnp.array([1.0, 0.0]), batches[0]), batches=batches, steps=2, carries_state=True, loss_of=lambda o: o[1])
