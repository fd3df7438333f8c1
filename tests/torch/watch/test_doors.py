# SPDX-License-Identifier: Apache-2.0
"""Functions of PyTorch that are listened at, and what others make of them meanwhile."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import numcheck_torch

if TYPE_CHECKING:
    import pytest


def test_what_others_wrapped_meanwhile_stays_wrapped_when_watching_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, name = [], "_clip_grads_with_norm_"
    module: Any = torch.nn.utils.clip_grad
    monkeypatch.setattr(module, name, getattr(module, name))  # undone at the end
    with numcheck_torch.instrument(nn.Linear(1, 1)).numcheck:
        listened = getattr(module, name)

        @functools.wraps(listened)
        def theirs(*args: Any, **kwargs: Any) -> Any:
            calls.append(args)
            return listened(*args, **kwargs)

        monkeypatch.setattr(module, name, theirs)
    assert getattr(module, name) is theirs
    model = nn.Linear(1, 1)
    model(torch.ones(1, 1)).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    assert len(calls) == 1
