"""Flax NNX: embeddings divided by their length; the padding embedding is all zeros."""
import jax, jax.numpy as jnp
from flax import nnx

NAME, FRAMEWORK = "nnx_norm_of_zero", "jax"
EXPECTED = dict(first_bad_op=("div",), phase="forward", cls="op-domain", cause="zero-norm", kind="nan", step=0, harm="loss", row=2,
                note="0 / ||0|| for the padding token", fix="add eps to the norm")


def build(fixed=False):
    model = nnx.Embed(5, 4, rngs=nnx.Rngs(0))
    model.embedding[...] = model.embedding[...].at[0].set(0.0)
    graph, params = nnx.split(model)

    def loss(params, ids):
        e = nnx.merge(graph, params)(ids)
        norm = jnp.sqrt(jnp.sum(e * e, -1, keepdims=True) + (1e-6 if fixed else 0.0))
        return jnp.mean((e / norm) ** 2 * jnp.arange(1.0, 5.0))

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(params, jnp.array([3, 1, 0, 2])), steps=1, loss_of=lambda o: o[0])
