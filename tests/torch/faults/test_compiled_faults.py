# SPDX-License-Identifier: Apache-2.0
"""A compiled model names the operator of the program that the user wrote."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._dynamo.backends.debugging import aot_eager

from tests.torch.faults.oracle import marked_line
from tests.torch.faults.test_model_faults import FAULTS
from tests.torch.faults.training import BAD, PLACE, Way, told

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")

COMPILED = [
    "Log",
    "Sum",
    "Linear",
    "Convolution",
    "LayerNorm",
    "BatchNorm",
    "Softmax",
    "CrossEntropy",
    "Attention",
    "IndexAdd",
    "CastToHalf",
    "MeanSquaredError",
    "SqrtAtZero",
    "LinearLayer",
    "Embedded",
    "AttentionLayer",
    "CastFromHalf",
]
needs_compiler = pytest.mark.skipif(
    sys.platform == "win32" or not (shutil.which("g++") or shutil.which("clang++")),
    reason="inductor needs a C++ compiler",
)


@pytest.fixture(autouse=True)
def _nothing_is_compiled_yet() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def assert_named(name: str, way: Way) -> None:
    errors, births = told(FAULTS[name], way, experiments=False)
    found = errors[0]
    assert (found.site.op, found.phase) == births[0]
    assert found.site.scope.startswith(PLACE)
    assert found.site.source is not None
    assert found.site.source.line == marked_line(FAULTS[name].forward)
    assert found.step == BAD


@pytest.mark.parametrize("name", COMPILED)
def test_the_operator_is_named_beside_aot_autograd(name: str) -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any, **options: Any) -> Any:
        graphs.append(graph)
        return aot_eager(graph, inputs, **options)

    assert_named(name, Way(backend=backend))
    assert graphs


@pytest.mark.parametrize("name", ["Log", "SqrtAtZero"])
@pytest.mark.parametrize(
    "way",
    [
        Way(backend="aot_eager", autocast=torch.bfloat16),
        Way(backend="aot_eager", reentrant=False),
    ],
    ids=["bfloat16 autocast", "checkpointed"],
)
def test_the_operator_is_named_where_ways_meet(name: str, way: Way) -> None:
    assert_named(name, way)


@needs_compiler
@pytest.mark.parametrize("name", ["Linear", "SqrtAtZero"])
def test_the_operator_is_named_beside_inductor(name: str) -> None:
    assert_named(name, Way(backend="inductor"))
