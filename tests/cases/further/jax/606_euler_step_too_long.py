"""Neural ODE integrated with explicit Euler steps that are too long for a stiff cubic."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "euler_step_too_long", "jax"
EXPECTED = dict(first_bad_op=("integer_pow", "mul"), phase="forward", cls="dynamics", cause="unstable-integrator", kind=("-inf", "+inf", "inf"), step=0, harm="loss",
                note="y' = -k y^3 with k dt y^2 > 2 overshoots further each time", fix="a shorter step")


def build(fixed=False):
    dt = 1e-3 if fixed else 0.2

    def loss(k, y0):
        def euler(y, _):
            return y - dt * k * y ** 3, None
        y, _ = jax.lax.scan(euler, y0, None, length=50)
        return jnp.mean(jnp.abs(y))

    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(jnp.float32(1.0), jnp.array([1.0, 2.0, 5.0])), steps=1, loss_of=lambda o: o[0])
