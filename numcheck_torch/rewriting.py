# SPDX-License-Identifier: Apache-2.0
"""Puts parameters back that a forward call writes: averages of others, clipped weights.

They may be most of the memory there is, so each is copied only when something is about
to write to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.dispatch import LiveMode
from numcheck_torch.kinds import is_plain
from numcheck_torch.operators import describe
from numcheck_torch.sentinel import local

if TYPE_CHECKING:
    from torch._ops import OpOverload

__all__ = ["ParametersBack"]


class ParametersBack(LiveMode):
    """Puts a module's parameters back at the end that operators wrote to inside.

    Args:
        model: the module.

    Example:
        >>> model = torch.nn.Linear(2, 1)
        >>> with ParametersBack(model):
        ...     _ = model.bias.data.fill_(7.0)
        >>> model.bias.item() == 7.0
        False
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(self._run)
        self._values: dict[int, list[torch.Tensor]] = {}
        for parameter in model.parameters():
            value = local(parameter).data
            if is_plain(type(value)) and value.layout is torch.strided:
                # Several share one storage where they were flattened.
                self._values.setdefault(_storage(value), []).append(value)
        self._before: dict[int, list[torch.Tensor]] = {}

    def __exit__(self, *exception: object) -> None:
        """Leave the block, and put the parameters back."""
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for storage, copies in self._before.items():
                for value, copied in zip(self._values[storage], copies, strict=True):
                    # A sharded model gives memory back between its calls.
                    if value.untyped_storage().nbytes():
                        value.copy_(copied)

    def _run(
        self, overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        operator = describe(overload)
        if operator.written:
            for tensor in operator.writes(args, kwargs):
                if tensor.layout is torch.strided:
                    self._keep(_storage(tensor))
        return overload(*args, **kwargs)

    def _keep(self, storage: int) -> None:
        if storage in self._values and storage not in self._before:
            self._before[storage] = [value.clone() for value in self._values[storage]]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
