"""A static loss scale of 2 ** 24 sends the gradient of a cast past float16."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "static_scale_of_casts", "jax"
EXPECTED = dict(first_bad_op=("convert_element_type", "mul"), phase="backward", cls="precision", cause="loss-scale-too-large",
                kind="inf", step=0, harm="output", fix="a smaller or a dynamic scale")


def build(fixed=False):
    S = 2.0 ** (8 if fixed else 24)
    w = jax.random.normal(jax.random.key(0), (16, 4)).astype(jnp.float32)
    x = jax.random.normal(jax.random.key(1), (32, 16))
    def loss(w, x):
        h = (x.astype(jnp.float16) @ w.astype(jnp.float16)).astype(jnp.float32)
        return jnp.mean(h ** 2) * S
    def f(w, x):
        l, g = jax.value_and_grad(loss)(w, x)
        return l / S, g / S
    return dict(fn=jax.jit(f), args=(w, x), steps=1, loss_of=lambda o: o[0])
