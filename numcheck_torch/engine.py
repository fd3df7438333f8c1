# SPDX-License-Identifier: Apache-2.0
"""One run of the autograd engine, as the program asked for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

__all__ = ["BACKWARD", "DOOR", "EngineRun", "is_inside"]

BACKWARD = (torch.autograd, "backward")
"""What ``Tensor.backward`` calls; it makes the first gradients before the engine runs.
"""

DOOR = (torch.autograd, "_engine_run_backward")
"""The one function through which ``Tensor.backward``, ``torch.autograd.backward`` and
``torch.autograd.grad`` enter the engine."""


def is_inside() -> bool:
    """Whether the engine runs right now, on this thread.

    Checkpointing enters the engine again from inside; that is part of the outer run.
    """
    return torch._C._current_graph_task_id() != -1


@dataclasses.dataclass(slots=True)
class EngineRun:
    """What the engine was asked to do.

    Attributes:
        roots: what is differentiated.
        seeds: gradients at the roots.
        inputs: what it is differentiated by; empty for every leaf.
        retains: whether the graph is kept for another run.
        creates: whether the gradients can be differentiated again.
        accumulates: whether the gradients go into ``.grad``.
    """

    roots: tuple[Any, ...]
    seeds: tuple[torch.Tensor | None, ...]
    inputs: tuple[Any, ...]
    retains: bool
    creates: bool
    accumulates: bool

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> EngineRun:
        """Read the arguments of the function that enters the engine."""
        accumulates = bool(kwargs.get("accumulate_grad", False))
        if len(args) == 5:
            roots, seeds, retains, creates, inputs = args
            return cls(
                tuple(roots),
                tuple(seeds),
                tuple(inputs or ()),
                bool(retains),
                bool(creates),
                accumulates,
            )
        names = ("roots", "seeds", "retains", "creates", "inputs")
        given = dict(zip(names, args, strict=False))
        return cls(
            roots=tuple(given["roots"]),
            seeds=tuple(given["seeds"]),
            inputs=tuple(given.get("inputs") or ()),
            retains=bool(given["retains"]),
            creates=bool(given["creates"]),
            accumulates=accumulates,
        )
