"""uint8 images cast to float and never divided by 255; an ordinary learning rate diverges."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "raw_image_bytes", "jax"
EXPECTED = dict(first_bad_op=("square", "integer_pow", "reduce_sum"), phase="forward", cls="data", cause="unnormalised-input", kind="+inf", step=5, harm="loss",
                note="x^2 is about 2e4 per pixel; stable learning rates lie below 1e-6", fix="divide by 255")


def build(fixed=False):
    img = jax.random.randint(jax.random.key(17), (32, 64), 0, 256).astype(jnp.uint8)
    y = jax.random.normal(jax.random.key(18), (32,))

    @jax.jit
    def step(w, batch):
        img, y = batch
        x = img.astype(jnp.float32) / 255.0 if fixed else img.astype(jnp.float32)
        value, g = jax.value_and_grad(lambda w: jnp.mean(jnp.square(x @ w - y)))(w)
        return w - 0.01 * g, value

    return dict(fn=step, args=(jnp.zeros(64), (img, y)), batches=[(img, y)], steps=40, carries_state=True, loss_of=lambda o: o[1])
