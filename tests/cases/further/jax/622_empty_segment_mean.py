"""Mean per graph by segment_sum: one graph of the batch has no node."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "empty_segment_mean", "jax"
EXPECTED = dict(first_bad_op=("div",), phase="forward", cls="data", cause="zero-count", kind="nan", step=1, harm="loss", row=2,
                note="0 / 0 for the empty graph", fix="maximum(count, 1)")


def build(fixed=False):
    x = jax.random.normal(jax.random.key(22), (2, 6, 3))
    seg = jnp.array([[0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1]])

    def loss(w, batch):
        x, seg = batch
        count = jax.ops.segment_sum(jnp.ones(6), seg, 3)
        pooled = jax.ops.segment_sum(x @ w, seg, 3) / (jnp.maximum(count, 1) if fixed else count)[:, None]
        return jnp.mean((pooled - 1) ** 2)

    @jax.jit
    def step(w, batch):
        value, g = jax.value_and_grad(loss)(w, batch)
        return w - 0.01 * g, value

    batches = [(x[0], seg[0]), (x[1], seg[1])]
    return dict(fn=step, args=(jnp.ones((3, 2)), batches[0]), batches=batches, steps=2, carries_state=True, loss_of=lambda o: o[1])
