# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.core.foreign.dumps import findings

BROKEN = [
    pytest.param("batch", 0, "N001", "data", "input:linear.0.0", "error", id="batch"),
    pytest.param("root", 0, "N309", "backward", "Torch.sqrt", "warning", id="root"),
    pytest.param("hidden", 0, "N307", "forward", "Torch.softmax", "error", id="hidden"),
    pytest.param("half", 1, "N107", "forward", "Tensor.square", "error", id="half"),
    pytest.param(
        "functions", 1, "N101", "forward", "Tensor.__mul__", "error", id="functions"
    ),
    pytest.param("ranks", 1, "N101", "forward", "Tensor.__mul__", "error", id="ranks"),
    pytest.param("clipped", 0, "N301", "forward", "Torch.log", "error", id="clipped"),
    pytest.param("values", 0, "N301", "forward", "Torch.log", "error", id="values"),
]


@pytest.mark.parametrize(("name", "at", "rule", "phase", "op", "severity"), BROKEN)
def test_the_first_finding_names_what_the_program_does_wrong(
    name: str, at: int, rule: str, phase: str, op: str, severity: str
) -> None:
    first = findings(name)[at, 0][0]
    assert (first.id, first.phase, first.site.op) == (rule, phase, op)
    assert first.severity == severity


def test_a_benign_mask_is_no_finding() -> None:
    assert findings("causal") == {(0, 0): ()}


def test_bad_gradients_that_are_clipped_are_no_fault_of_the_batch() -> None:
    ((found,),) = findings("clipped").values()
    assert found.id == "N301"


def test_the_healthy_steps_and_ranks_have_no_finding() -> None:
    found = {**findings("ranks"), (2, 0): findings("functions")[0, 0]}
    assert [at for at, f in found.items() if f] == [(1, 0)]


def test_the_users_line_is_found_through_the_frames_of_libraries() -> None:
    line = findings("functions")[1, 0][0].site.source
    assert line is not None
    assert (line.file, line.text) == ("train.py", "logits = logits * gain * gain")


def test_a_bad_gradient_of_unrecorded_code_is_not_blamed_on_the_batch() -> None:
    first = findings("modules")[1, 0][0]
    assert (first.id, first.phase) == ("N904", "backward")
    assert first.cause is None
    assert first.harm[0].op == "gradient:head.bias"


def test_a_zero_that_wipes_out_an_infinite_gradient_is_said() -> None:
    (first,) = findings("root")[0, 0]
    assert [h.op for h in first.harm] == ["gradient:proj.bias", "gradient:proj.weight"]
    assert "smothered" in [e.key for e in first.evidence]
