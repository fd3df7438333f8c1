# SPDX-License-Identifier: Apache-2.0
"""Generators of random numbers that a program made for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from numcheck_torch.higher_order import run_inside
from numcheck_torch.versions import LeavesCompiled

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PutBack", "generators_of"]


def generators_of(model: torch.nn.Module) -> tuple[torch.Generator, ...]:
    """Return the generators that are attributes of the model's modules.

    Example:
        >>> model = torch.nn.Linear(2, 1)
        >>> model.noise = torch.Generator()
        >>> generators_of(model) == (model.noise,)
        True
    """
    held = (v for m in model.modules() for v in vars(m).values())
    found = {id(v): v for v in held if isinstance(v, torch.Generator)}
    return tuple(found.values())


class PutBack(LeavesCompiled, TorchDispatchMode):
    """Puts generators back at the end that operators were given inside.

    Example:
        >>> own = torch.Generator().manual_seed(0)
        >>> with PutBack():
        ...     first = torch.rand(1, generator=own)
        >>> torch.equal(first, torch.rand(1, generator=own))
        True
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._before: dict[int, tuple[torch.Generator, torch.Tensor]] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Note the state of a generator before it is drawn from."""
        given = kwargs or {}
        for value in (*args, *given.values()):
            if isinstance(value, torch.Generator) and id(value) not in self._before:
                self._before[id(value)] = value, value.get_state()
        return run_inside(self, func, args, given)

    def __exit__(self, *exception: object) -> None:
        """Leave the block, and put the generators back."""
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        for generator, state in self._before.values():
            generator.set_state(state)
