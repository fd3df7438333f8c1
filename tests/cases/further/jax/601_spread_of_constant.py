"""Standard deviation of a constant row as a loss term: its gradient at 0 is infinite."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "spread_of_constant", "jax"
EXPECTED = dict(first_bad_op=("div", "rsqrt"), phase="backward", cls="op-domain", cause="sqrt-grad-zero", kind="+inf", step=0, harm="output",
                note="0.5 / sqrt(0), times a zero deviation", fix="sqrt(var + eps)")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(1), (5, 6)).at[3].set(0.25)

    def loss(w, x):
        h = x * w
        spread = jnp.sqrt(jnp.var(h, axis=1) + 1e-8) if fixed else jnp.std(h, axis=1)
        return jnp.mean(jax.nn.relu(1.0 - spread))

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.float32(1.0), x), steps=1, loss_of=lambda o: o[0])
