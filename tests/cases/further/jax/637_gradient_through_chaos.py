"""Gradient of a state after 400 turns of the logistic map with regard to its rate."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "gradient_through_chaos", "jax"
EXPECTED = dict(first_bad_op=("mul", "add_any"), phase="backward", cls="dynamics", cause="exploding-gradient", kind="inf", step=0,
                harm="output", note="the state stays in [0, 1]; its derivative grows by 1.7 a turn, not evenly", fix="fewer turns")


def build(fixed=False):
    def last(rate, x):
        return jax.lax.scan(lambda x, _: (rate * x * (1 - x), None), x, None, length=10 if fixed else 400)[0]

    return dict(fn=jax.jit(jax.value_and_grad(last)), args=(jnp.float32(3.97), jnp.float32(0.3)), steps=1, loss_of=lambda o: o[0])
