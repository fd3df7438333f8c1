"""custom_vjp of a sign-preserving root whose backward divides by zero."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "custom_vjp_reciprocal", "jax"
EXPECTED = dict(first_bad_op=("div",), phase="backward", cls="op-domain", cause="custom-backward", kind=("+inf", "nan"), step=0, harm="output",
                note="g / (2 |y|) at y = 0", fix="maximum(|y|, 1e-3)")


def build(fixed=False):
    @jax.custom_vjp
    def root(x):
        return jnp.sign(x) * jnp.sqrt(jnp.abs(x))

    def fwd(x):
        y = root(x)
        return y, y

    def bwd(y, g):
        a = jnp.abs(y)
        return (g / (2 * (jnp.maximum(a, 1e-3) if fixed else a)),)

    root.defvjp(fwd, bwd)
    x = jnp.array([-1.0, 0.0, 4.0])
    loss = lambda w, x: jnp.sum(root(x * w) ** 2)
    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.float32(1.0), x), steps=1, loss_of=lambda o: o[0])
