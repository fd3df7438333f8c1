"""Several tags a sample as a mean of one-hot rows; a sample has only the tag -1, and the mean is 0/0."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "tags_of_no_class", "jax"
EXPECTED = dict(first_bad_op=("div",), phase="forward", cls="data", cause="zero-count", kind="nan", step=0, harm="loss", row=2,
                note="one_hot of -1 is a row of zeros without an error", fix="divide by maximum(count, 1)")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(0), (5, 4))
    tags = jnp.array([[0, 1], [2, 1], [-1, -1], [3, 0], [1, 2]])

    def loss(w, x, tags):
        hot = jax.nn.one_hot(tags, 4).sum(1)
        count = hot.sum(-1, keepdims=True)
        return -jnp.mean(jnp.sum(hot / (jnp.maximum(count, 1) if fixed else count) * jax.nn.log_softmax(x @ w), -1))

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.eye(4), x, tags), steps=1, loss_of=lambda o: o[0])
