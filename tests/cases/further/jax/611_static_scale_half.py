"""float16 training with a static loss scale of 2^20 and no check for overflow."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "static_scale_half", "jax"
EXPECTED = dict(first_bad_op=("convert_element_type", "dot_general", "mul"), phase="backward", cls="precision", cause="loss-scale-too-large", kind=("inf", "+inf", "-inf"), step=0, harm="output",
                note="the scaled cotangent passes 65504 on its way back to float16", fix="a dynamic scale that skips such steps")


def build(fixed=False):
    scale = 2.0 ** 8 if fixed else 2.0 ** 24
    k1, k2 = jax.random.split(jax.random.key(11))
    x, y = jax.random.normal(k1, (16, 8), jnp.float16), jax.random.normal(k2, (16,))

    def loss(w, batch):
        x, y = batch
        return scale * jnp.mean(((x @ w.astype(jnp.float16)).astype(jnp.float32) - y) ** 2)

    @jax.jit
    def step(w, batch):
        value, g = jax.value_and_grad(loss)(w, batch)
        return w - 0.05 * g / scale, value / scale

    return dict(fn=step, args=(jnp.zeros(8), (x, y)), batches=[(x, y)], steps=3, carries_state=True, loss_of=lambda o: o[1])
