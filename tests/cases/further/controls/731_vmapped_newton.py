"""Newton's square root in a vmapped while loop; lanes that are done go on unseen."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "vmapped_newton", "jax"
EXPECTED = dict(control=True, note="healthy")


def build(fixed=False):
    def solve(a):
        def cond(c): return (jnp.abs(c[0] ** 2 - a) > 1e-4) & (c[1] < 50)
        def body(c): return (0.5 * (c[0] + a / c[0]), c[1] + 1)
        return jax.lax.while_loop(cond, body, (a, 0))[0]
    return dict(fn=jax.jit(lambda a: jnp.sum(jax.vmap(solve)(a))), args=(jnp.linspace(0.5, 40, 9),), steps=1, loss_of=lambda o: o)
