# SPDX-License-Identifier: Apache-2.0
"""What the core asks of the PyTorch adapter; importing it loads no PyTorch."""

from __future__ import annotations

from typing import Any

__all__ = ["ADAPTER", "TorchAdapter"]


class TorchAdapter:
    """Tells PyTorch's objects apart by the modules their classes come from."""

    name = "torch"
    call = "numcheck_torch.instrument"

    def claims(self, target: object) -> bool:
        """Whether `target` is a module of PyTorch's, compiled or not."""
        return _descends(target, "torch.nn.", "Module")

    def claims_leaf(self, leaf: object) -> bool:
        """Whether `leaf` is a tensor, a module or an optimizer of PyTorch's."""
        return (
            _descends(leaf, "torch", "Tensor")
            or _descends(leaf, "torch.nn.", "Module")
            or _descends(leaf, "torch.optim.", "Optimizer")
        )

    def instrument(self, target: Any, **options: Any) -> Any:
        """Return `target`, watched."""
        from numcheck_torch.instrument import instrument

        return instrument(target, **options)


def _descends(value: object, package: str, name: str) -> bool:
    """Whether a class of that name, from that package, is among the value's bases.

    Example:
        >>> _descends(1.5, "torch", "Tensor")
        False
    """
    return any(
        base.__name__ == name and f"{base.__module__}.".startswith(package)
        for base in type(value).__mro__
    )


ADAPTER = TorchAdapter()
