# SPDX-License-Identifier: Apache-2.0
"""The public call: a function like the user's, watched."""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

from numcheck.errors import ArgumentError, ArgumentTypeError, NonFiniteError
from numcheck.options import options_from
from numcheck_jax.frames import outside
from numcheck_jax.jitted import without_instance
from numcheck_jax.monitor import JaxMonitor
from numcheck_jax.refusal import check_function

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Watched", "instrument"]


class Watched:
    """A function with the same signature and results as the one it watches.

    Attributes:
        numcheck: its monitor.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        monitor: JaxMonitor,
        bound: tuple[Any, ...] = (),
    ) -> None:
        """Stand in for `function`, whose first arguments are `bound`."""
        functools.update_wrapper(self, function, updated=())
        self.numcheck = monitor
        self._function = function
        self._bound = bound
        monitor.belongs_to(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; see it for arguments and results."""
        __tracebackhide__ = True
        try:
            return self.numcheck.call((*self._bound, *args), kwargs)
        except Exception as error:
            # Between the user's frames ours would only be in the way.
            found = isinstance(error, NonFiniteError)
            error.__traceback__ = None if found else outside(error.__traceback__)
            raise

    def __getattr__(self, name: str) -> Any:
        """Answer with the function's own attributes, ``lower`` and such."""
        if name == "_function":
            raise AttributeError(name)
        return getattr(self._function, name)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind like a function when it is a class's attribute."""
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Copy and pickle as the plain function; a decorated one by its name."""
        module, name = self.__module__, getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (_plain, (self._function,))

    def __repr__(self) -> str:
        return f"<numcheck_jax.Watched of {self._function!r}>"


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def instrument(
    function: Callable[..., Any],
    *,
    lag: int = 1,
    loss: Callable[[Any], Any] | None = None,
    rollback: bool = False,
    save: str | None = None,
    **options: Any,
) -> Any:
    """Return a function like `function`, watched.

    Args:
        function: a training step, a loss, or what `jax.jit` or `jax.value_and_grad`
            made of one. Its results are returned as they are.
        lag: 1 reads a step's flag at the next call, so that the device is never
            waited for; 0 reads it at once.
        loss: picks the loss out of what the function returns; by default a scalar
            that was not differentiated backwards, by name or the first.
        rollback: run a jitted function so that a step that breaks hands back the old
            parameters and state. Its arguments can then be donated and the step is
            run again all the same.
        save: which tensors to keep in the run folder, as a pattern over ``loss``,
            ``output:NAME``, ``gradient:NAME``, ``parameter:NAME`` and ``state:NAME``;
            at every step, or at every `every`-th.
        **options: see `numcheck.options.Options`.

    Returns:
        The function; its attribute ``numcheck`` is the `Monitor`.

    Raises:
        ArgumentTypeError: `function` cannot be called, is a class, or is another
            framework's.
        ArgumentError: an option has a value that cannot be used.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> step = instrument(jax.jit(lambda x: x * jnp.log(x)), on_error="record")
        >>> float(step(jnp.float32(1.0)))
        0.0
        >>> step.numcheck.close()
        >>> step.numcheck.findings
        ()
    """
    check_function(function)
    if lag not in (0, 1):
        raise ArgumentError(f"lag must be 0 or 1, got {lag!r}")
    picker: object = loss
    if picker is not None and not callable(picker):
        kind = type(picker).__name__
        raise ArgumentTypeError(f"loss must be a function or None, got {kind}")
    if isinstance(function, Watched):
        # Watched once is enough; the later settings count.
        function.numcheck.close()
        function = function._function
    unbound, bound = without_instance(function)
    monitor = JaxMonitor(
        unbound,
        options_from(options, ("lag", "loss", "rollback", "save")),
        lag=lag,
        loss=loss,
        rollback=rollback,
        save=save,
    )
    return Watched(function, monitor, bound)
