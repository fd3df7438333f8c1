"""optax.adafactor on float16 weights, one of which receives a zero gradient."""
import jax, jax.numpy as jnp, optax

NAME, FRAMEWORK = "adafactor_half", "jax"
EXPECTED = dict(first_bad_op=("pow", "rsqrt"), phase="optimizer", cls="precision", cause="fp16-eps-underflow", kind="+inf", step=0,
                harm="param", note="eps=1e-30 is 0 in float16 and stands in one term of an average", fix="float32 master weights")


def build(fixed=False):
    dt = jnp.float32 if fixed else jnp.float16
    tx = optax.adafactor(1e-2)
    x = jax.random.normal(jax.random.key(0), (8, 3)).at[:, 1].set(0.0).astype(dt)

    @jax.jit
    def step(state, x):
        w, s = state
        value, g = jax.value_and_grad(lambda w: jnp.mean((x @ w - x.sum(-1)) ** 2))(w)
        up, s = tx.update(g, s, w)
        return (optax.apply_updates(w, up), s), value

    w = jnp.full(3, 0.5, dt)
    return dict(fn=step, args=((w, tx.init(w)), x), batches=[x], steps=2, carries_state=True, loss_of=lambda o: o[1])
