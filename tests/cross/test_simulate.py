# SPDX-License-Identifier: Apache-2.0
"""The same program on the same simulated device, in PyTorch and in JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import numcheck
from numcheck.simulation import Rounding, profile_names
from numcheck_jax.simulation.rounding import round_to as jax_round
from numcheck_torch.simulation.rounding import round_to as torch_round

if TYPE_CHECKING:
    from numpy.typing import NDArray

RNG = np.random.default_rng(0)
SHAPES = {"x": (96, 64), "w1": (64, 128), "w2": (128, 8)}
DATA = {k: RNG.standard_normal(s).astype(np.float32) for k, s in SHAPES.items()}


def torch_step(profile: str) -> list[NDArray[np.float32]]:
    """Returns the loss and the gradients of two layers in PyTorch."""
    x, w1, w2 = (torch.from_numpy(DATA[k].copy()) for k in ("x", "w1", "w2"))
    w1.requires_grad_()
    w2.requires_grad_()

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = (torch.tanh(x @ w1 / 8) @ w2).square().mean()
        loss.backward()
        return loss

    loss = numcheck.simulate(step, profile)(x)
    assert w1.grad is not None
    assert w2.grad is not None
    return [loss.detach().numpy(), w1.grad.numpy(), w2.grad.numpy()]


def jax_step(profile: str) -> list[Any]:
    """Returns the loss and the gradients of two layers in JAX."""
    x, w1, w2 = (jnp.asarray(DATA[k]) for k in ("x", "w1", "w2"))

    def loss(w: Any, x: jax.Array) -> jax.Array:
        return ((jnp.tanh(x @ w[0] / 8) @ w[1]) ** 2).mean()

    value, gradients = numcheck.simulate(jax.value_and_grad(loss), profile)((w1, w2), x)
    return [value, *gradients]


@pytest.mark.parametrize("profile", profile_names())
def test_both_frameworks_compute_the_same_on_one_device(profile: str) -> None:
    for one, other in zip(torch_step(profile), jax_step(profile), strict=True):
        error = np.linalg.norm(one - np.asarray(other)) / np.linalg.norm(one)
        # A last bit of float32 may decide a rounding to far fewer bits here and there.
        assert error < 5e-3


@pytest.mark.parametrize(
    "profile",
    sorted({*profile_names()} - {"float32", "ascend910b"}),
)
def test_each_device_departs_from_float32(profile: str) -> None:
    plain, coarse = torch_step("float32"), torch_step(profile)
    errors = [
        np.linalg.norm(a - b) / np.linalg.norm(a)
        for a, b in zip(plain, coarse, strict=True)
    ]
    assert max(errors) > 1e-5


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4", "hif4", "hif8", "e4m3/tensor"])
def test_both_frameworks_round_to_the_same_bits(name: str) -> None:
    x = DATA["x"] * np.exp2(RNG.integers(-9, 9, SHAPES["x"])).astype(np.float32)
    one = torch_round(torch.from_numpy(x), Rounding(name)).numpy()
    other = np.asarray(jax_round(jnp.asarray(x), Rounding(name)))
    assert np.array_equal(one.view(np.uint32), other.view(np.uint32))


def test_a_model_goes_to_its_framework() -> None:
    model = torch.nn.Linear(4, 1)
    assert numcheck.simulate(model, "mxfp8") is model
    function = numcheck.simulate(jax.jit(jnp.exp), "ascend910a")
    assert float(function(jnp.float16(20.0))) == 65504.0
