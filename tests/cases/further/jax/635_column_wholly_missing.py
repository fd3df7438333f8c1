"""Missing values filled with the mean of their column; in one batch a column is missing."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "column_wholly_missing", "jax"
EXPECTED = dict(first_bad_op=("div",), phase="forward", cls="data", cause="empty-mean", kind="nan", step=1, harm="loss", column=1,
                note="the NaN of the batch are replaced on purpose; what replaces them is 0 / 0", fix="mean over what is known, 0 where nothing is")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(0), (3, 6, 3)).at[0, 2, 1].set(jnp.nan).at[1, :, 1].set(jnp.nan)

    def means(x):
        known = jnp.isfinite(x).sum(0)
        return jnp.where(jnp.isnan(x), 0.0, x).sum(0) / (jnp.maximum(known, 1) if fixed else known)

    @jax.jit
    def step(w, x):
        filled = jnp.where(jnp.isnan(x), means(x), x)
        value, g = jax.value_and_grad(lambda w: jnp.mean((filled @ w - 1) ** 2))(w)
        return w - 0.1 * g, value

    return dict(fn=step, args=(jnp.zeros(3), x[0]), batches=list(x), steps=3, carries_state=True, loss_of=lambda o: o[1])
