"""The update is added instead of subtracted."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "gradient_ascent", "jax"
EXPECTED = dict(first_bad_op=("square", "integer_pow", "reduce_sum"), phase="forward", cls="dynamics", cause="wrong-sign", kind="+inf", step=157, harm="loss",
                note="the loss is maximised", fix="minus")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(7), (32, 4))
    y = x @ jnp.arange(1.0, 5.0)

    @jax.jit
    def step(w, batch):
        x, y = batch
        value, g = jax.value_and_grad(lambda w: jnp.mean(jnp.square(x @ w - y)))(w)
        return (w - 0.1 * g if fixed else w + 0.1 * g), value

    return dict(fn=step, args=(jnp.zeros(4), (x, y)), batches=[(x, y)], steps=400, carries_state=True, loss_of=lambda o: o[1])
