"""Accuracy of each class returned beside the loss: one batch has no example of a class."""
import jax, jax.numpy as jnp, optax

NAME, FRAMEWORK = "accuracy_of_absent_class", "jax"
EXPECTED = dict(first_bad_op=("div",), phase="forward", cls="data", cause="zero-count", kind="nan", step=1, harm="output", column=2,
                note="loss and gradients stay finite; only the returned metric is NaN", fix="maximum(count, 1)")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(0), (3, 9, 4))
    y = jnp.array([[0, 1, 2] * 3, [0, 1] * 4 + [0], [2, 1, 0] * 3])

    def loss(w, x, y):
        z, member = x @ w, jax.nn.one_hot(y, 3)
        hits, count = ((z.argmax(-1) == y)[:, None] * member).sum(0), member.sum(0)
        value = optax.softmax_cross_entropy_with_integer_labels(z, y).mean()
        return value, hits / (jnp.maximum(count, 1) if fixed else count)

    @jax.jit
    def step(w, batch):
        (value, accuracy), g = jax.value_and_grad(loss, has_aux=True)(w, *batch)
        return w - 0.1 * g, (value, accuracy)

    batches = [(x[i], y[i]) for i in range(3)]
    return dict(fn=step, args=(jnp.zeros((4, 3)), batches[0]), batches=batches, steps=3, carries_state=True, loss_of=lambda o: o[1][0])
