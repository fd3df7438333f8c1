"""bfloat16 Flax CNN with batch norm and max pooling, optax with warm-up."""
import jax, jax.numpy as jnp, flax.linen as nn, optax

NAME, FRAMEWORK = "bfloat16_cnn", "jax"
EXPECTED = dict(control=True, note="ordinary mixed precision: bfloat16 compute, float32 weights")


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (3, 3), dtype=jnp.bfloat16)(x)
        x = nn.BatchNorm(use_running_average=False, dtype=jnp.bfloat16)(x)
        x = nn.max_pool(nn.relu(x), (2, 2), (2, 2))
        return nn.Dense(3, dtype=jnp.bfloat16)(x.reshape(x.shape[0], -1)).astype(jnp.float32)


def build(fixed=False):
    m = CNN()
    x = jax.random.normal(jax.random.key(28), (4, 8, 8, 1))
    y = jnp.array([0, 1, 2, 1])
    v = m.init(jax.random.key(29), x)
    tx = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 3, 10))

    @jax.jit
    def step(state, batch):
        p, stats, s = state

        def loss(p):
            z, new = m.apply({"params": p, "batch_stats": stats}, batch[0], mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(z, batch[1]).mean(), new["batch_stats"]

        (value, stats), g = jax.value_and_grad(loss, has_aux=True)(p)
        up, s = tx.update(g, s, p)
        return (optax.apply_updates(p, up), stats, s), value

    return dict(fn=step, args=((v["params"], v["batch_stats"], tx.init(v["params"])), (x, y)), batches=[(x, y)], steps=4, carries_state=True, loss_of=lambda o: o[1])
