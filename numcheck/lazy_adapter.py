# SPDX-License-Identifier: Apache-2.0
"""What every adapter's door has in common: a method loads what does the work.

An adapter subclasses it with its names and with what it claims; the object it registers
can then be asked on machines that lack the framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from numcheck.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.doctor import Check
    from numcheck.monitor import Monitor

__all__ = ["LazyAdapter"]


class LazyAdapter:
    """An adapter that imports nothing until it is used.

    Attributes:
        name: of the framework.
        package: that holds ``instrumentation``, ``simulation``, ``demo``, ``examine``.
        needs: top-level packages whose absence means that the extra is missing.
        extra: what to install then.
    """

    name: str
    package: str
    needs: frozenset[str]
    extra: str

    @property
    def call(self) -> str:
        """The explicit call, for messages."""
        return f"{self.package}.instrument"

    def instrument(self, target: Any, **options: Any) -> Any:  # noqa: ANN401 - a framework's
        """Return `target`, watched; see the adapter's ``instrument``.

        Raises:
            MissingExtraError: the framework is not installed.
        """
        return self.load("instrumentation", "instrument")(target, **options)

    def simulate(self, target: Any, profile: Any, **options: Any) -> Any:  # noqa: ANN401 - as above
        """Return `target` on another device; see the adapter's ``simulate``.

        Raises:
            MissingExtraError: the framework is not installed.
        """
        return self.load("simulation", "simulate")(target, profile, **options)

    def demonstrate(self) -> Monitor:
        """Train a small model that breaks, watched, and return its monitor.

        Raises:
            MissingExtraError: the framework, or what its model is made of, is not
                installed.
        """
        monitor: Monitor = self.load("demo", "demonstrate")()
        return monitor

    def examine(self) -> Iterable[Check]:
        """Say what the framework can do on this machine."""
        from numcheck.doctor import broken_import

        try:
            module = importlib.import_module(f"{self.package}.examine")
        except (ImportError, RuntimeError, OSError) as error:
            return (broken_import(self.name, error),)
        checks: Iterable[Check] = module.examine()
        return checks

    def load(self, module: str, name: str) -> Any:  # noqa: ANN401 - whatever has the name
        """Return what a module of the adapter calls `name`.

        Raises:
            MissingExtraError: the framework is not installed.
        """
        try:
            return getattr(importlib.import_module(f"{self.package}.{module}"), name)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] not in self.needs:
                raise
            msg = (
                f"{missing.name} is not installed: pip install 'numcheck[{self.extra}]'"
            )
            raise MissingExtraError(msg) from missing
