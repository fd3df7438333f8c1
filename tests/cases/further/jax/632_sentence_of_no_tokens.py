"""Mean of word vectors over lengths that come with the batch: one sentence has none."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "sentence_of_no_tokens", "jax"
EXPECTED = dict(first_bad_op=("div",), phase="forward", cls="data", cause="empty-sequence", kind="nan", step=2, harm="loss", row=1,
                note="0 / 0 for a length of zero, which nothing in the step has counted", fix="maximum(length, 1)")


def build(fixed=False):
    ids = jax.random.randint(jax.random.key(1), (3, 4, 6), 0, 20)
    lengths = jnp.array([[6, 3, 2, 5], [2, 2, 6, 4], [4, 0, 5, 6]])

    def loss(p, ids, n):
        mask = (jnp.arange(6) < n[:, None]).astype(jnp.float32)
        pooled = (p["table"][ids] * mask[..., None]).sum(1) / (jnp.maximum(n, 1) if fixed else n)[:, None]
        return jnp.mean(jax.nn.softplus(pooled @ p["w"]))

    @jax.jit
    def step(p, batch):
        value, g = jax.value_and_grad(loss)(p, *batch)
        return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), value

    p = dict(table=jax.random.normal(jax.random.key(0), (20, 4)), w=jnp.ones(4))
    batches = [(ids[i], lengths[i]) for i in range(3)]
    return dict(fn=step, args=(p, batches[0]), batches=batches, steps=3, carries_state=True, loss_of=lambda o: o[1])
