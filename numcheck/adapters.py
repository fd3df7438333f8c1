# SPDX-License-Identifier: Apache-2.0
"""The door between the core and the frameworks.

An adapter registers an object with the methods of `Adapter` under the entry-point
group ``numcheck.adapters``. `instrument` asks each adapter whether what it was given
is theirs. What happens to be imported plays no role.
"""

from __future__ import annotations

import dataclasses
import functools
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

from numcheck.errors import AmbiguousTargetError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numcheck.doctor import Check
    from numcheck.monitor import Monitor

__all__ = ["Adapter", "adapters", "instrument", "simulate"]

GROUP = "numcheck.adapters"


class Adapter(Protocol):
    """What a framework's package must answer. Importing it loads no framework."""

    name: str
    call: str
    """The explicit call a user can type instead, e.g. ``numcheck_jax.instrument``."""

    def claims(self, target: object) -> bool:
        """Whether `target` (a module, a compiled function) is of this framework."""
        ...

    def claims_leaf(self, leaf: object) -> bool:
        """Whether `leaf` (an array, a module) is a value of this framework."""
        ...

    def instrument(self, target: Any, **options: Any) -> Any:  # noqa: ANN401 - any framework's object
        """Return `target`, watched."""
        ...

    def simulate(self, target: Any, profile: Any, **options: Any) -> Any:  # noqa: ANN401 - any framework's object
        """Return `target`, computing with a device's arithmetic."""
        ...

    def demonstrate(self) -> Monitor:
        """Train a small model that breaks, watched, and return its monitor.

        Raises:
            MissingExtraError: the framework is not installed.
        """
        ...

    def examine(self) -> Iterable[Check]:
        """Say what the framework can do on this machine, for ``numcheck doctor``."""
        ...


@functools.cache
def adapters() -> tuple[Adapter, ...]:
    """Return the installed adapters, by name."""
    found = sorted(entry_points(group=GROUP), key=lambda e: e.name)
    return tuple(entry.load() for entry in found)


def instrument(target: Any, **options: Any) -> Any:  # noqa: ANN401 - any framework's object
    """Return `target` watched by the adapter of its framework.

    Args:
        target: a module or model, a compiled function, or a plain function. The
            framework of a plain function is decided at its first call, by the
            arrays and modules among its arguments.
        **options: see `numcheck.options.Options`, and the explicit calls
            `numcheck_torch.instrument` and `numcheck_jax.instrument`.

    Returns:
        What the adapter returns: the same module, or a function with the same
        signature and the same results. Its attribute ``numcheck`` is the `Monitor`.

    Raises:
        ArgumentTypeError: `target` cannot be called.
        AmbiguousTargetError: several frameworks claim it, or none does.

    >>> step = instrument(lambda x: x)  # decided at the first call
    >>> step("neither an array nor a module")
    Traceback (most recent call last):
    numcheck.errors.AmbiguousTargetError: no framework could be meant by ...
    """
    if isinstance(target, type) or not callable(target):
        is_class = isinstance(target, type)
        what = f"the class {target.__name__}" if is_class else type(target).__name__
        msg = (
            "instrument expects a module, a compiled function or a plain function, "
            f"got {what}{'; make an object of it first' if is_class else ''}"
        )
        raise ArgumentTypeError(msg)
    owners = [a for a in adapters() if a.claims(target)]
    if owners:
        return _only(owners, f"{type(target).__name__} object").instrument(
            target, **options
        )
    return _Undecided(target, lambda a, f: a.instrument(f, **options))


def simulate(target: Any, profile: Any, **options: Any) -> Any:  # noqa: ANN401 - any framework's object
    """Return `target` computing with the arithmetic of another device.

    Args:
        target: a module or model, a compiled function, or a plain function. The
            framework of a plain function is decided at its first call, by the
            arrays and modules among its arguments.
        profile: name of a profile (`numcheck profiles` lists them), a TOML file of
            the same form, or a `numcheck.simulation.Profile`.
        **options: see `numcheck_torch.simulate` and `numcheck_jax.simulate`.

    Returns:
        What the adapter returns: the same module, or a function with the same
        signature.

    Raises:
        ArgumentTypeError: `target` cannot be called.
        ArgumentError: there is no such profile.
        AmbiguousTargetError: several frameworks claim it, or none does.

    >>> step = simulate(lambda x: x, "mxfp8")  # decided at the first call
    >>> step("neither an array nor a module")
    Traceback (most recent call last):
    numcheck.errors.AmbiguousTargetError: no framework could be meant by ...
    """
    from numcheck.simulation import load

    if not callable(target):
        msg = (
            "simulate expects a module, a compiled function or a plain function, "
            f"got {type(target).__name__}"
        )
        raise ArgumentTypeError(msg)
    known = load(profile)
    owners = [a for a in adapters() if a.claims(target)]
    if owners:
        owner = _only(owners, f"{type(target).__name__} object")
        return owner.simulate(target, known, **options)
    return _Undecided(target, lambda a, f: a.simulate(f, known, **options))


def _only(owners: list[Adapter], what: str) -> Adapter:
    if len(owners) == 1:
        return owners[0]
    calls = " or ".join(a.call for a in (owners or adapters()))
    how = "several frameworks" if owners else "no framework"
    msg = f"{how} could be meant by {what}; call {calls} explicitly"
    raise AmbiguousTargetError(msg)


class _Undecided:
    """A plain function whose framework shows at its first call."""

    def __init__(
        self,
        function: Callable[..., Any],
        decide: Callable[[Adapter, Callable[..., Any]], Callable[..., Any]],
    ) -> None:
        functools.update_wrapper(self, function)
        self._name = getattr(function, "__qualname__", type(function).__name__)
        self._function = function
        self._decide = decide
        self._decided: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the user's own signature
        if self._decided is None:
            leaves = list(_leaves((args, kwargs)))
            owners = [a for a in adapters() if any(map(a.claims_leaf, leaves))]
            owner = _only(owners, f"the arguments of {self._name}")
            self._decided = self._decide(owner, self._function)
        return self._decided(*args, **kwargs)

    @property
    def numcheck(self) -> Monitor:
        """The monitor; there is none before the first call."""
        if self._decided is None:
            msg = f"{self._name} was not called yet, so its framework is not known"
            raise AmbiguousTargetError(msg)
        monitor: Monitor = self._decided.numcheck  # type: ignore[attr-defined]
        return monitor


def _leaves(tree: object) -> Iterator[object]:
    """Yield what the containers of a call's arguments hold, depth first."""
    if isinstance(tree, dict):
        for value in tree.values():
            yield from _leaves(value)
    elif isinstance(tree, list | tuple | set):
        for value in tree:
            yield from _leaves(value)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        yield tree
        for field in dataclasses.fields(tree):
            yield from _leaves(getattr(tree, field.name, None))
    else:
        yield tree
