"""Flax attention with a query that sees nothing: linen masks with the smallest finite number."""
import jax, jax.numpy as jnp, flax.linen as nn

NAME, FRAMEWORK = "linen_fully_masked_attention", "jax"
EXPECTED = dict(control=True, note="finfo.min gives a uniform row, no NaN")


def build(fixed=False):
    m = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8)
    x = jax.random.normal(jax.random.key(25), (2, 5, 8))
    mask = jnp.ones((2, 1, 5, 5), bool).at[0, :, 3].set(False)
    p = m.init(jax.random.key(26), x, x, mask=mask)
    loss = lambda p, x, mask: jnp.mean(m.apply(p, x, x, mask=mask) ** 2)
    return dict(fn=jax.jit(jax.value_and_grad(loss)), args=(p, x, mask), steps=1, loss_of=lambda o: o[0])
