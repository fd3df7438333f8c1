"""Gradients of 4096 micro-batches accumulated in bfloat16: the sum sticks."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "bfloat16_gradient_sum", "jax"
EXPECTED = dict(first_bad_op=("add",), phase="optimizer", cls="precision", cause="bf16-stagnation", kind="stagnation", step=0, harm="silent",
                note="once the sum is 512 times a term, adding it changes nothing", fix="accumulate in float32")


def build(fixed=False):
    dtype = jnp.float32 if fixed else jnp.bfloat16
    x = 1.0 + 0.1 * jax.random.uniform(jax.random.key(14), (4096, 3))

    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ w))

    @jax.jit
    def accumulate(w, xs):
        def micro(acc, x):
            return acc + jax.grad(loss)(w, x).astype(dtype), None
        total, _ = jax.lax.scan(micro, jnp.zeros(3, dtype), xs)
        return total.astype(jnp.float32)

    return dict(fn=accumulate, args=(jnp.full(3, 0.1), x), steps=1, loss_of=lambda o: o[0])
