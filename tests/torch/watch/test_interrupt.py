# SPDX-License-Identifier: Apache-2.0
"""A loop that is interrupted and started again is watched as before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from numcheck import NonFiniteError
from numcheck_torch.call_depth import CallDepth
from tests.torch.watch.loops import Breaks, inputs, train, watched

if TYPE_CHECKING:
    import torch


class Interrupted(Breaks):
    """Stands for a module in whose call somebody presses Ctrl-C."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 1:
            raise KeyboardInterrupt
        return super().forward(x)


@pytest.mark.parametrize("level", ["watch", "anchors", "trace"])
def test_a_fault_after_an_interrupt_is_found(level: str) -> None:
    model, optimizer, _ = watched(Interrupted(), level=level, audit_first=False)
    train(model, optimizer, bad_steps=(), steps=1)
    with pytest.raises(KeyboardInterrupt):
        model(inputs()[:1])
    with pytest.raises(NonFiniteError) as caught:
        train(model, optimizer, bad_steps=(1,))
    assert caught.value.finding.site.op == "aten.log.default"


def test_a_call_inside_a_call_is_no_interrupt() -> None:
    depth = CallDepth()

    def outer() -> tuple[int, int]:
        begun = depth.enter(sys._getframe())
        return begun, inner()

    def inner() -> int:
        begun = depth.enter(sys._getframe())
        depth.leave()
        return begun

    # Frames of this file make the calls; the outermost one stays until it returns.
    assert outer() == (1, 2)
    assert inner() == 1
