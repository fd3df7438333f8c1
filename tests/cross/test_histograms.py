# SPDX-License-Identifier: Apache-2.0
"""The page of a run that failed has a histogram of what led there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import numcheck
import numcheck_jax
import numcheck_torch
from tests.core.report.test_page import Reader

if TYPE_CHECKING:
    from pathlib import Path

X = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)


def failed(framework: str) -> Any:
    """Returns the monitor of a step that takes the logarithm of zeros."""
    if framework == "torch":
        model = numcheck_torch.instrument(nn.ReLU(), on_error="record")
        x = torch.from_numpy(X.copy()).requires_grad_()
        with model.numcheck:
            torch.log(model(x)).sum().backward()
        return model.numcheck
    step = numcheck_jax.instrument(
        jax.jit(lambda x: jnp.log(jax.nn.relu(x)).sum()), on_error="record"
    )
    step(jnp.asarray(X))
    step.numcheck.close()
    return step.numcheck


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_the_operand_of_the_origin_has_its_histogram(
    framework: str, tmp_path: Path
) -> None:
    monitor = failed(framework)
    (finding,) = monitor.findings
    (operand,) = (f.summary for f in finding.facts if f.label == "input")
    expected = numcheck.summarize(np.maximum(X, 0), histogram=True).exponents
    assert operand.exponents == expected
    monitor.report(tmp_path / "report.html")
    data = Reader((tmp_path / "report.html").read_text("utf-8")).data
    origin = data["origins"][0]["site"]
    assert sum(data["distributions"][str(origin)]["counts"]) == (X > 0).sum()
