# SPDX-License-Identifier: Apache-2.0
"""Which watched model made what another one was given: a generator, for its critic.

The critic is updated first. A NaN in its batch is no data that somebody read from a
file, but what the generator returned in a step that is still under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from numcheck_torch.program import Program

    class _Watched(Protocol):
        @property
        def program(self) -> Program: ...


__all__ = ["maker_of_bad_input"]

W = TypeVar("W", bound="_Watched")


def maker_of_bad_input(program: Program, others: Iterable[W]) -> W | None:
    """Return who returned a value that this program was given and that is not finite.

    Args:
        program: of the step that broke.
        others: those whose step is under way as well.
    """
    given = [kept.tensor for call in program.forwards for kept in call.kept]
    for other in others:
        made = [_memory(t) for t in other.program.live_outputs().values()]
        known = {memory for memory in made if memory is not None}
        if any(_memory(t) in known and _is_bad(t) for t in given):
            return other
    return None


def _memory(tensor: torch.Tensor) -> int | None:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def _is_bad(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and not bool(torch.isfinite(tensor).all())
