"""A dict batch whose feature column came out of a division by zero on the host."""
import jax, jax.numpy as jnp, numpy as np

NAME, FRAMEWORK = "host_division_by_zero", "jax"
EXPECTED = dict(first_bad_op=("input:batch['ratio']", "input:ratio", "input:batch[ratio]"), phase="data", cls="data", cause="inf-feature", kind="+inf", step=2, harm="loss",
                row=4, note="clicks / views with no views", fix="clip views to at least 1")


def build(fixed=False):
    rng = np.random.default_rng(10)

    @jax.jit
    def step(w, batch):
        f = lambda w: jnp.mean((batch["ratio"] * w[0] + batch["age"] * w[1] - batch["y"]) ** 2)
        value, g = jax.value_and_grad(f)(w)
        return w - 0.01 * g, value

    batches = []
    for i in range(4):
        views = rng.integers(1, 9, 6).astype(np.float32)
        views[4] = 0 if i == 2 else views[4]
        with np.errstate(divide="ignore"):
            ratio = np.float32(3) / (np.maximum(views, 1) if fixed else views)
        batches.append(dict(ratio=ratio, age=rng.random(6, np.float32), y=rng.random(6, np.float32)))
    return dict(fn=step, args=(jnp.zeros(2), batches[0]), batches=batches, steps=4, carries_state=True, loss_of=lambda o: o[1])
