"""Angular loss arccos(cosine) between a vector and itself."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "arccos_of_same_direction", "jax"
EXPECTED = dict(first_bad_op=("rsqrt", "div"), phase="backward", cls="op-domain", cause="acos-grad-one", kind="+inf", step=0, harm="output",
                note="1 / sqrt(1 - c^2) at c = 1", fix="clip to 1 - 1e-6, or atan2 of cross and dot")


def build(fixed=False):
    a = jnp.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    b = jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])

    def loss(w, a, b):
        c = jnp.sum(jnp.tanh(a * w) * b, axis=1) / jnp.tanh(w[0])
        if fixed:
            c = jnp.clip(c, -1 + 1e-6, 1 - 1e-6)
        return jnp.mean(jnp.arccos(c))

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.ones(2), a, b), steps=1, loss_of=lambda o: o[0])
