# SPDX-License-Identifier: Apache-2.0
"""Memory beyond input and output does not grow with the array."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from numcheck.formats import decode, encode, quantize
from numcheck.measure import CodeHistogram, compare, fit, summarize

Task = Callable[[np.ndarray, np.ndarray], object]
TASKS: dict[str, Task] = {
    "nearest": lambda x, out: quantize(x, "fp16", out=out),
    "table": lambda x, out: quantize(x, "hif8", rounding="down", out=out),
    "exact": lambda x, out: quantize(x, "fp16", rounding="up", out=out),
    "stochastic": lambda x, out: quantize(x, "e4m3", rounding="stochastic", out=out),
    "wider result": lambda x, _: quantize(x[: 1 << 20], "e11m10"),
    "codes of values": lambda x, _: encode(x[: 1 << 22], "e4m3").nbytes,
    "values of codes": lambda x, _: decode(x.view(np.uint8)[: 1 << 22], "e4m3").nbytes,
    "blocks": lambda x, out: quantize(x, "mxfp8", out=out),
    "blocks across": lambda x, out: quantize(
        x.reshape(2048, -1), "mxfp4", axis=0, out=out.reshape(2048, -1)
    ),
    "two scales": lambda x, out: quantize(x, "nvfp4", out=out),
    "one scale": lambda x, out: quantize(x, "e4m3", block_size="tensor", out=out),
    "summary": lambda x, _: summarize(x, histogram=True),
    "summary across": lambda x, _: summarize(x.reshape(2048, -1).T),
    "codes": lambda x, _: CodeHistogram.of(x.view(np.float16)),
    "comparison": compare,
    "fit": lambda x, _: fit(x[: 1 << 21]),
}


@pytest.fixture(scope="module")
def arrays() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal(1 << 23).astype(np.float32)
    return x, np.empty_like(x)


@pytest.mark.parametrize("task", TASKS)
def test_less_than_32_mib_is_needed_for_an_array_of_that_size(
    task: str, arrays: tuple[np.ndarray, np.ndarray]
) -> None:
    x, out = arrays
    tracemalloc.start()
    result = TASKS[task](x, out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    made = result.nbytes if isinstance(result, np.ndarray) and task[0] == "w" else 0
    assert peak - made < x.nbytes - (1 << 20)
