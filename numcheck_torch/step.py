# SPDX-License-Identifier: Apache-2.0
"""A whole training step as a plain function, watched.

The modules it trains are found where the function finds them: in its closure, among
the globals and the object it uses, among its arguments.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from numcheck.errors import ArgumentError
from numcheck_torch.monitor import TorchMonitor
from numcheck_torch.reach import modules_of, optimizers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from numcheck.options import Options

__all__ = ["WatchedStep"]


class WatchedStep:
    """A step function, watched; call it as the function it was made of.

    Args:
        function: the step.
        options: how to watch.
        optimizers: those that train its modules; found when empty.
        scaler: the gradient scaler; found when None.
        sync: see `numcheck_torch.monitor.TorchMonitor`.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 1)
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> def train_step(x):
        ...     sgd.zero_grad()
        ...     loss = model(x).square().mean()
        ...     loss.backward()
        ...     sgd.step()
        ...     return loss.item()
        >>> from numcheck.options import Options
        >>> step = WatchedStep(train_step, Options())
        >>> step(torch.ones(3, 2)) > 0, step.numcheck.findings
        (True, ())
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: Options,
        optimizers: tuple[torch.optim.Optimizer, ...] = (),
        scaler: torch.amp.GradScaler | None = None,
        *,
        sync: bool = True,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._optimizers = optimizers
        self._scaler = scaler
        self._sync = sync
        self._monitor = self._watch((), {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make the step."""
        if self._monitor is None:
            self._monitor = self._watch(args, kwargs)
        if self._monitor is None:
            name = getattr(self._function, "__name__", "the step")
            raise ArgumentError(
                f"no torch.nn.Module with parameters was found in the closure, the "
                f"globals or the arguments of {name}; instrument the module itself"
            )
        return self._function(*args, **kwargs)

    @property
    def numcheck(self) -> TorchMonitor:
        """The monitor; there is none before the modules are known."""
        if self._monitor is None:
            raise ArgumentError(
                "the step was not called yet, and its modules are among its arguments"
            )
        return self._monitor

    def _watch(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> TorchMonitor | None:
        found = modules_of(self._function, args, kwargs)
        if not found:
            return None
        optimizers = self._optimizers or optimizers_of(self._function, args, kwargs)
        watched = next(iter(found.values())) if len(found) == 1 else found
        return TorchMonitor(
            watched, self._options, optimizers, self._scaler, self, sync=self._sync
        )
