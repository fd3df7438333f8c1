"""Newton's method in a while loop lands where the derivative is zero."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "while_newton_flat", "jax"
EXPECTED = dict(first_bad_op=("div",), phase="forward", cls="op-domain", cause="zero-derivative", kind=("+inf", "-inf"), step=0, harm="loss",
                note="f'(x) = 3 x^2 - 3 vanishes at the start x = 1", fix="damp the derivative")


def build(fixed=False):
    def solve(c):
        def body(s):
            x, i = s
            d = 3 * x * x - 3
            return x - (x ** 3 - 3 * x + c) / (jnp.where(jnp.abs(d) < 0.5, 0.5, d) if fixed else d), i + 1
        return jax.lax.while_loop(lambda s: s[1] < 8, body, (jnp.float32(1.0), 0))[0]

    def step(w, c):
        root = solve(c)
        value, g = jax.value_and_grad(lambda w: (w - root) ** 2)(w)
        return w - 0.1 * g, value

    return dict(fn=jax.jit(step), args=(jnp.float32(0.0), jnp.float32(1.0)), batches=[jnp.float32(1.0)], steps=1, carries_state=True, loss_of=lambda o: o[1])
