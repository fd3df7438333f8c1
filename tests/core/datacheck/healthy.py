# SPDX-License-Identifier: Apache-2.0
"""Data of the kinds people train on, with nothing wrong in them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["HEALTHY"]

_RANDOM = np.random.default_rng(7)

HEALTHY: dict[str, np.ndarray[Any, Any]] = {
    "normal": _RANDOM.normal(size=(5000, 8)).astype(np.float32),
    "uniform": _RANDOM.random((500, 3)),
    "heavy tails": _RANDOM.standard_t(3, size=(5000, 2)),
    "one hot": np.eye(10, dtype=np.float32)[_RANDOM.integers(0, 10, 3000)],
    "rare events": (_RANDOM.random((5000, 2)) < 0.002).astype(np.float32),
    "two values": _RANDOM.choice([-1.0, 1.0], size=(100, 4)),
    "small counts": _RANDOM.poisson(2, size=(2000, 3)).astype(np.float32),
    "scaled images": _RANDOM.random((16, 3, 8, 8)).astype(np.float32),
    "standardised images": _RANDOM.normal(size=(16, 8, 8, 1)).astype(np.float16),
    "tokens": _RANDOM.integers(0, 50_000, (32, 128)),
    "labels": _RANDOM.integers(0, 10, 200),
    "labels with padding": np.where(
        _RANDOM.random((8, 16)) < 0.3, -100, _RANDOM.integers(0, 10, (8, 16))
    ),
    "causal mask": np.tril(np.ones((6, 6), np.bool_)),
    "additive mask": np.triu(np.full((6, 6), -np.inf, np.float32), 1),
    "key_padding_mask": np.arange(8)[None] >= np.array([[8], [3], [1]]),
    "lengths": _RANDOM.integers(1, 9, 40),
    "group": np.arange(90) % 9,
    "token weights": _RANDOM.random(300).astype(np.float32),
    "a single sample": np.array([[0.3, -0.2]]),
    "a number": np.array(0.5),
    "nothing": np.zeros((0, 4)),
    "words": np.array(["a", "b"]),
}
