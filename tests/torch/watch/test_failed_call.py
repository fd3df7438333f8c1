# SPDX-License-Identifier: Apache-2.0
"""A call of the module that ends in an error, over a NaN in it or something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import numcheck_torch
from numcheck_torch.failed_call import MOST_IN_VAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.options import OnError
    from numcheck_torch.monitor import TorchMonitor


class Model(nn.Module):
    """Has a layer, and a forward of the test's."""

    def __init__(self, body: Callable[[nn.Module, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.body = body

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(self.layer, x)


def validated(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    loc = layer(torch.log(x))
    out: torch.Tensor = torch.distributions.Normal(
        loc, 1.0, validate_args=True
    ).log_prob(torch.zeros(4, 4))
    return out


def asserted(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = layer(torch.log(x))
    assert torch.isfinite(out).all(), "the output is bad"
    return out


def overflowing(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = layer(x) + torch.exp(x * -100)
    assert torch.isfinite(out).all(), "the output is bad"
    return out


def factored(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    out = layer(torch.log(x))
    factor: torch.Tensor = torch.linalg.cholesky(out @ out.T + torch.eye(4))
    return factor


def unrelated(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    mask = torch.full((4, 4), -torch.inf).triu(1)
    scores = torch.softmax(layer(x) + mask, -1)
    if bool((x < 0).any()):
        raise KeyError("no such expert")
    return scores


def trained(
    body: Callable[[nn.Module, torch.Tensor], Any],
    on_error: OnError = "record",
    bad: int = 1,
) -> tuple[TorchMonitor, list[Exception], nn.Module]:
    torch.manual_seed(0)
    model = Model(body)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    numcheck_torch.instrument(model, optimizer, on_error=on_error, audit_first=False)
    errors: list[Exception] = []
    for step in range(2 + bad):
        optimizer.zero_grad()
        x = torch.linspace(0.5, 1.5, 16).reshape(4, 4)
        try:
            model(-x if 0 < step <= bad else x).sum().backward()
        except (AssertionError, KeyError, ValueError, RuntimeError) as e:
            errors.append(e)
        else:
            optimizer.step()
    monitor: Any = model.numcheck
    monitor.close()
    return monitor, errors, model


@pytest.mark.parametrize(
    ("body", "kind", "op"),
    [
        (validated, ValueError, "aten.log.default"),
        (asserted, AssertionError, "aten.log.default"),
        (overflowing, AssertionError, "aten.exp.default"),
        (factored, RuntimeError, "aten.log.default"),
    ],
)
def test_the_origin_of_the_nan_that_a_call_failed_over_is_named(
    body: Callable[[nn.Module, torch.Tensor], Any], kind: type[Exception], op: str
) -> None:
    monitor, (error,), _ = trained(body)
    assert isinstance(error, kind)
    (finding,) = monitor.findings
    assert (finding.site.op, finding.severity) == (op, "error")
    assert (finding.phase, finding.step, finding.reproduced) == ("forward", 1, True)
    assert not hasattr(error, "__notes__")


def test_the_error_is_the_programs_own_and_carries_the_finding_as_a_note() -> None:
    monitor, (error,), _ = trained(asserted, "raise")
    assert type(error) is AssertionError
    assert str(error).startswith("the output is bad")
    (note,) = error.__notes__
    assert "aten.log.default" in note
    assert len(monitor.findings) == 1


def test_an_error_about_something_else_is_none_of_numchecks_business() -> None:
    monitor, errors, _ = trained(unrelated, "raise")
    assert [str(e) for e in errors] == ["'no such expert'"]
    assert monitor.findings == ()
    assert not [e for e in monitor.events if e.name in ("fault", "note")]


def test_a_program_that_goes_by_errors_is_soon_left_alone() -> None:
    calls: list[int] = []

    def body(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return unrelated(layer, x)

    _, errors, _ = trained(body, bad=6)
    assert len(errors) == 6
    assert len(calls) == 8 + MOST_IN_VAIN


def test_training_goes_on_after_a_failed_call_as_in_a_plain_run() -> None:
    _, _, watched = trained(validated)
    torch.manual_seed(0)
    plain = Model(validated)
    optimizer = torch.optim.SGD(plain.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        plain(torch.linspace(0.5, 1.5, 16).reshape(4, 4)).sum().backward()
        optimizer.step()
    pairs = zip(plain.parameters(), watched.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_an_earlier_call_of_the_step_is_run_again_with_the_failing_one() -> None:
    torch.manual_seed(0)
    model = Model(asserted)
    numcheck_torch.instrument(model, on_error="record", audit_first=False)
    x = torch.linspace(0.5, 1.5, 16).reshape(4, 4)
    first = model(x)
    with pytest.raises(AssertionError):
        model(first.abs() * 0 - x)
    monitor: Any = model.numcheck
    assert len(monitor.program.events) == 4  # the call, and three operators
    (finding,) = monitor.findings
    assert (finding.site.op, finding.reproduced) == ("aten.log.default", True)
    model(x).sum().backward()
    monitor.close()
    assert len(monitor.findings) == 1
