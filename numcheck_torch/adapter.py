# SPDX-License-Identifier: Apache-2.0
"""What the core asks of the PyTorch adapter; importing it loads no PyTorch."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from numcheck.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numcheck.doctor import Check
    from numcheck.monitor import Monitor, Options

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
        """Return `target`, watched; see `numcheck_torch.instrument`.

        Raises:
            MissingExtraError: PyTorch is not installed.
        """
        with _or_missing_extra():
            from numcheck_torch.instrumentation import instrument
        return instrument(target, **options)

    def simulate(self, target: Any, profile: Any, **options: Any) -> Any:
        """Return `target` on another device; see `numcheck_torch.simulate`.

        Raises:
            MissingExtraError: PyTorch is not installed.
        """
        with _or_missing_extra():
            from numcheck_torch.simulation import simulate
        return simulate(target, profile, **options)

    def demonstrate(self) -> Monitor:
        """Train a small model that breaks, watched, and return its monitor.

        Raises:
            MissingExtraError: PyTorch is not installed.
        """
        with _or_missing_extra():
            from numcheck_torch.demo import demonstrate
        return demonstrate()

    def watching(self, options: Options) -> AbstractContextManager[Sequence[Monitor]]:
        """Watch whatever is trained inside the block, for ``numcheck run``.

        Raises:
            MissingExtraError: PyTorch is not installed.
        """
        with _or_missing_extra():
            from numcheck_torch.running import watching
        return watching(options)

    def examine(self) -> Iterable[Check]:
        """Say what PyTorch can do on this machine."""
        from numcheck.doctor import broken_import

        try:
            from numcheck_torch.examine import examine
        except (ImportError, RuntimeError, OSError) as error:
            return (broken_import("torch", error),)
        return examine()


@contextlib.contextmanager
def _or_missing_extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        msg = "torch is not installed: pip install 'numcheck[torch]'"
        raise MissingExtraError(msg) from missing


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
