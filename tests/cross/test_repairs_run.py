# SPDX-License-Identifier: Apache-2.0
"""The repairs that `numcheck explain` shows run in PyTorch and JAX as they stand."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import flax.linen
import jax
import jax.numpy as jnp
import optax
import pytest
import torch

import numcheck_jax
import numcheck_torch

if TYPE_CHECKING:
    from pathlib import Path

TEXT = (files("numcheck.report") / "explain" / "fixes.toml").read_text("utf-8")
FIXES = tomllib.loads(TEXT)
NOT_RUN = {
    ("races", "torch"): "needs a device with streams",
    ("normalisation", "jax"): "stands inside a module's compact method",
}


def for_torch(folder: Path) -> dict[str, Any]:
    """Returns what readers of a repair in PyTorch have at hand."""
    x = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))
    model(x).sum().backward()
    torch.save(model.state_dict(), folder / "healthy.pt")
    return {
        "torch": torch, "numcheck_torch": numcheck_torch,
        "functional": torch.nn.functional,
        "x": x, "y": torch.arange(16), "logits": x, "classes": 16,
        "mean": x.mean(0), "std": x.std(0), "median": x.median(), "scale": 1.0,
        "scores": x.half(), "visible": x > 0, "shape": (3,),
        "total": torch.zeros(3).half(), "count": torch.tensor([0, 1, 2]),
        "a": torch.eye(3), "b": torch.tensor([0.0, 1.0, 2.0]), "n": 3,
        "model": model, "layer": model[0], "block": model, "loss": model(x).sum(),
        "last_healthy": folder / "healthy.pt",
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "rnn": torch.nn.RNN(4, 4), "tokens": 5, "width": 4,
        "w8": torch.randn(16, 16).to(torch.float8_e4m3fn).t(),
        "w_scale": torch.tensor(1.0),
    }  # fmt: skip


def for_jax(folder: Path) -> dict[str, Any]:
    """Returns what readers of a repair in JAX have at hand."""
    del folder
    x = jax.random.normal(jax.random.key(0), (8, 4))
    params = {"w": jnp.ones(3)}
    return {
        "jax": jax, "jnp": jnp, "optax": optax, "nn": flax.linen,
        "numcheck_jax": numcheck_jax,
        "x": x, "y": jnp.arange(8) % 4, "logits": x, "classes": 4,
        "mean": x.mean(0), "std": x.std(0), "median": jnp.median(x), "scale": 1024.0,
        "scores": x.astype(jnp.float16), "visible": x > 0, "shape": (3,),
        "total": jnp.zeros(3), "count": jnp.arange(3),
        "a": jnp.eye(3), "b": jnp.arange(3.0), "n": 3,
        "params": params, "loss_fn": lambda p: (p["w"] ** 2).sum(),
        "checkpointer": SimpleNamespace(restore=lambda _: params), "last_healthy": "",
        "f": jnp.exp, "step": lambda s: s, "features": 4, "tokens": 5, "width": 4,
        "label_lengths": jnp.array([3, 9]), "logit_lengths": jnp.array([5, 5]),
        "losses": jnp.array([1.0, jnp.inf]),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*CUDA is not available:UserWarning")
@pytest.mark.parametrize(("name", "framework"), [
    (name, framework) for name in FIXES for framework in ("torch", "jax")
    if (name, framework) not in NOT_RUN
])  # fmt: skip
def test_a_repair_runs(name: str, framework: str, tmp_path: Path) -> None:
    names = {"torch": for_torch, "jax": for_jax}[framework](tmp_path)
    before = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    cudnn = torch.backends.cudnn.enabled
    try:
        exec(FIXES[name][framework], names)  # noqa: S102 - our own pages
    finally:
        jax.config.update("jax_default_matmul_precision", before)
        torch.backends.cudnn.enabled = cudnn


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_scaled_cast_keeps_its_values_in_range(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    names = for_torch(tmp_path)
    names |= {
        "x": (names["x"] * 1e4).to(dtype),
        "w8": torch.eye(16).to(torch.float8_e4m3fn).t(),
    }
    exec(FIXES["scaled_cast"]["torch"], names)  # noqa: S102 - our own pages
    expected = names["x"].float()
    assert torch.allclose(names["y"].float(), expected, rtol=0.07, atol=100)
