"""An identity-initialised recurrent layer in Flax NNX whose gain 4 compounds over a hundred steps."""
import jax, jax.numpy as jnp

NAME, FRAMEWORK = "nnx_recurrent_gain", "jax"
EXPECTED = dict(first_bad_op=("dot_general",), phase="forward", cls="dynamics", cause="exploding-recurrence", kind="+inf",
                step=0, harm="loss", fix="a gain of at most 1, or an LSTM")


from flax import nnx
class Rnn(nnx.Module):
    def __init__(self, gain, rngs):
        self.w = nnx.Param(gain * jnp.eye(8))
        self.i = nnx.Linear(4, 8, rngs=rngs); self.o = nnx.Linear(8, 1, rngs=rngs)
    def __call__(self, x):
        def f(h, u):
            h = jax.nn.relu(h @ self.w[...] + u)
            return h, None
        h, _ = jax.lax.scan(f, jnp.zeros((x.shape[0], 8)), jnp.swapaxes(self.i(x), 0, 1))
        return self.o(h)[:, 0]

def build(fixed=False):
    m = Rnn(0.5 if fixed else 4.0, nnx.Rngs(0))
    g, s = nnx.split(m)
    x = jax.random.normal(jax.random.key(3), (6, 100, 4))
    def loss(s, x): return jnp.mean(nnx.merge(g, s)(x) ** 2)
    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(s, x), steps=1, loss_of=lambda o: o[0])
