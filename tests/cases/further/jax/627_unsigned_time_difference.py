"""Waiting times from uint32 clocks: one event lies a second before its reference, and the difference wraps."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "unsigned_time_difference", "jax"
EXPECTED = dict(first_bad_op=("exp",), phase="forward", cls="data", cause="int-overflow", kind="+inf", step=1, harm="loss", row=1,
                root_op="uint32 difference wraps to 4294967295", note="exp is only where it first shows", fix="cast to float32 before the difference")


def build(fixed=False):
    def loss(w, b):
        now, then = (t.astype(jnp.float32) for t in b) if fixed else b
        return jnp.mean(jnp.exp(1e-3 * w * (now - then).astype(jnp.float32)))

    @jax.jit
    def step(w, b):
        l, g = jax.value_and_grad(loss)(w, b)
        return w - 1e-3 * g, l

    now = jnp.array([100, 200, 300], jnp.uint32)
    batches = [(now, jnp.array(t, jnp.uint32)) for t in ([90, 150, 299], [90, 201, 299])]
    return dict(fn=step, args=(jnp.float32(0.5), batches[0]), batches=batches, steps=2, carries_state=True, loss_of=lambda o: o[1])
