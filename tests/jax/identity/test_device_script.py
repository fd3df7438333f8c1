# SPDX-License-Identifier: Apache-2.0
"""The script that compares results on a GPU, as far as it goes without one."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks import gpu_jax
from tests.jax.identity.programs import PROGRAMS

SCRIPT = Path(gpu_jax.__file__)


@pytest.mark.parametrize("level", gpu_jax.LEVELS)
def test_program_that_repeats_itself_is_the_same(level: str) -> None:
    assert gpu_jax.verdict(PROGRAMS["jit of value_and_grad"], level) == "same"


def test_program_that_does_not_repeat_itself_is_different() -> None:
    counter = itertools.count()

    def drifting(x: Any) -> Any:
        return x + next(counter)

    assert gpu_jax.verdict((drifting, (jnp.ones(3),), {}), "watch") == "different"


def test_every_construct_is_compared() -> None:
    names = [name for name, _ in gpu_jax.programs(quick=False)]
    assert set(PROGRAMS) < set(names)
    assert "gradient in shard_map" in names


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="there is a device")
def test_without_a_device_the_script_says_so_and_succeeds() -> None:
    ran = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0
    assert ran.stdout == "skipped: JAX finds no cuda device here\n"
