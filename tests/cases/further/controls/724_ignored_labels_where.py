"""Labels of -100 give NaN in the gather; where() drops them and their gradient."""
import jax, jax.numpy as jnp, optax

NAME, FRAMEWORK = "ignored_labels_where", "jax"
EXPECTED = dict(control=True, note="the gather's fill value is selected away; a gather's gradient does not depend on what it read")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(24), (6, 4))
    y = jnp.array([1, -100, 0, 2, -100, 1])

    def loss(w, x, y):
        ce = optax.softmax_cross_entropy_with_integer_labels(x @ w, y)
        return jnp.where(y >= 0, ce, 0.0).sum() / (y >= 0).sum()

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.ones((4, 3)), x, y), steps=1, loss_of=lambda o: o[0])
