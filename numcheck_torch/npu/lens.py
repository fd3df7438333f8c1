# SPDX-License-Identifier: Apache-2.0
"""What an NPU itself says of one operator of a replay.

Reading the flag waits for the device, so a lens belongs in a replay, never in a step
that is only watched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.npu.attention import is_fused_attention, mask_facts
from numcheck_torch.npu.door import has_npu
from numcheck_torch.npu.flag import overflow_flag
from numcheck_torch.npu.layout import has_padding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numcheck_torch.npu.flag import OverflowFlag
    from numcheck_torch.operators import Operator

__all__ = ["Lens", "lens"]

Detail = tuple[tuple[str, str | float], ...]


def lens(model: torch.nn.Module | None = None) -> Lens | None:
    """Return a lens where an NPU answers, or a flag; elsewhere nothing is to be seen.

    Args:
        model: what runs.
    """
    flag = overflow_flag(model)
    return Lens(flag) if has_npu() or flag is not None else None


class Lens:
    """Brackets each operator with the overflow flag and looks at its arguments.

    Args:
        flag: the flag, where the device has one.
    """

    def __init__(self, flag: OverflowFlag | None) -> None:
        self._flag = flag

    def before(self) -> None:
        """Call right before an operator runs."""
        if self._flag is not None:
            self._flag.clear()

    def after(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Detail:
        """Return what the device says of the operator that just ran.

        Args:
            operator: which it was.
            args: its arguments.
            kwargs: its keyword arguments.

        Returns:
            Facts for `Site.detail`: ``overflow_flag`` and ``padded_operand`` where
            the flag was set, and those of `mask_facts`.
        """
        arguments = dict(operator.operands(args, kwargs))
        facts: list[tuple[str, str | float]] = []
        if self._flag is not None and self._flag.read():
            facts.append(("overflow_flag", 1.0))
            if any(has_padding(t) for t in _tensors(arguments)):
                facts.append(("padded_operand", 1.0))
        if operator.name.startswith("npu.") and is_fused_attention(operator.name):
            facts += mask_facts(arguments)
        return tuple(facts)


def _tensors(arguments: Mapping[str, Any]) -> Iterable[torch.Tensor]:
    for value in arguments.values():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, torch.Tensor):
                yield item
