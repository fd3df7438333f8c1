# SPDX-License-Identifier: Apache-2.0
"""What the core asks of the PyTorch adapter; importing it loads no PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.lazy_adapter import LazyAdapter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from numcheck.monitor import Monitor
    from numcheck.options import Options

__all__ = ["ADAPTER", "TorchAdapter"]


class TorchAdapter(LazyAdapter):
    """Tells PyTorch's objects apart by the modules their classes come from."""

    name = "torch"
    package = "numcheck_torch"
    needs = frozenset({"torch"})
    extra = "torch"

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

    def watching(self, options: Options) -> AbstractContextManager[Sequence[Monitor]]:
        """Watch whatever is trained inside the block, for ``numcheck run``.

        Raises:
            MissingExtraError: PyTorch is not installed.
        """
        watched: AbstractContextManager[Sequence[Monitor]] = self.load(
            "running", "watching"
        )(options)
        return watched


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
