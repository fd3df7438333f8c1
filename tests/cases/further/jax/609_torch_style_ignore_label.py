"""Labels of -100 (ignore) ported from another framework; the mean is not masked."""
import jax, jax.numpy as jnp, optax

NAME, FRAMEWORK = "torch_style_ignore_label", "jax"
EXPECTED = dict(first_bad_op=("gather",), phase="forward", cls="data", cause="label-out-of-range", kind="nan", step=1, harm="loss", row=1,
                note="take_along_axis in fill mode gives NaN for index -100", fix="mask with where before the mean")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(9), (2, 4, 3))
    y = jnp.array([[0, 1, 2, 1], [2, -100, 0, 1]])

    def loss(w, x, y):
        ce = optax.softmax_cross_entropy_with_integer_labels(x @ w, y)
        return jnp.where(y >= 0, ce, 0.0).mean() if fixed else ce.mean()

    @jax.jit
    def step(w, batch):
        value, g = jax.value_and_grad(loss)(w, *batch)
        return w - 0.1 * g, value

    batches = [(x[0], y[0]), (x[1], y[1])]
    return dict(fn=step, args=(jnp.zeros((3, 3)), batches[0]), batches=batches, steps=2, carries_state=True, loss_of=lambda o: o[1])
