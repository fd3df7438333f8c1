# SPDX-License-Identifier: Apache-2.0
"""Finds what an unmodified script jits, and watches it; imports no framework itself.

A script's own calls of `jax.jit`, `flax.nnx.jit` and `equinox.filter_jit` are answered
with a function that is watched from its first call on. Calls inside a larger program,
and those of libraries, stay as they are.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import types
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any, Final

from numcheck.errors import MissingExtraError
from numcheck_jax.script_monitors import ScriptMonitors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec

    from numcheck.monitor import Monitor
    from numcheck.options import Options
    from numcheck_jax.instrumentation import Watched

__all__ = ["watching"]

_OWN: Final = frozenset(("numcheck", "numcheck_jax", "numcheck_torch"))
_JITS: Final = {"equinox": "filter_jit", "flax.nnx": "jit", "jax": "jit"}
_GIVEN: Final = "fun"
"""What each of them calls the function; `jax.jit` once took it by keyword too."""


@contextlib.contextmanager
def watching(options: Options) -> Iterator[Sequence[Monitor]]:
    """Watch every function that the block's own code jits.

    Args:
        options: how to watch.

    Yields:
        The monitors, one for each jitted function that was called.

    Raises:
        MissingExtraError: JAX is not installed.
    """
    if importlib.util.find_spec("jax") is None:
        raise MissingExtraError("jax is not installed: pip install 'numcheck[jax]'")
    finder = _Finder(options)
    sys.meta_path.insert(0, finder)
    for name in _JITS:
        if name in sys.modules:
            finder.answer(sys.modules[name])
    try:
        yield finder.monitors.listed
    finally:
        finder.close()


class _Finder(MetaPathFinder):
    """Answers for the jits of modules as they are imported."""

    def __init__(self, options: Options) -> None:
        self.monitors = ScriptMonitors(options)
        self._seeking: set[str] = set()
        self._restore = contextlib.ExitStack()
        self._is_open = True

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> ModuleSpec | None:
        """Return where a module with a jit is, such that its jit is answered."""
        if fullname not in _JITS or fullname in self._seeking:
            return None
        self._seeking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._seeking.discard(fullname)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            run = loader.exec_module

            def run_and_answer(module: types.ModuleType) -> None:
                run(module)
                self.answer(module)

            loader.exec_module = run_and_answer
        return spec

    def answer(self, module: types.ModuleType) -> None:
        """Put a jit that watches in the place of a module's own."""
        if not self._is_open:
            return
        name = _JITS[module.__name__]
        original = getattr(module, name)

        @functools.wraps(original)
        def jit(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if not (self._is_open and _is_users(sys._getframe(1))):
                return made
            if callable(args[0] if args else kwargs.get(_GIVEN)):
                return _Jitted(made, self)
            return lambda function: _Jitted(made(function), self)

        setattr(module, name, jit)
        self._restore.callback(setattr, module, name, original)

    def watch(self, jitted: _Jitted, function: Callable[..., Any]) -> Watched | None:
        """Return a function watched; None when no more is watched."""
        return self.monitors.watch(jitted, function) if self._is_open else None

    def close(self) -> None:
        """Close the monitors and give the modules their own jits back."""
        self._is_open = False
        sys.meta_path.remove(self)
        self._restore.close()
        self.monitors.close()


class _Jitted:
    """A jitted function of the script's, watched wherever it is outermost."""

    def __init__(self, function: Callable[..., Any], finder: _Finder) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._finder = finder
        self._watched: Watched | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; see it for arguments and results."""
        __tracebackhide__ = True
        from numcheck_jax.capture import is_traced

        jax = sys.modules["jax"]
        if is_traced(tuple(jax.tree.leaves((args, kwargs)))):
            return self._function(*args, **kwargs)
        if self._watched is None:
            self._watched = self._finder.watch(self, self._function)
        if self._watched is None:
            return self._function(*args, **kwargs)
        self._finder.monitors.called(self._watched.numcheck)
        return self._watched(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Answer with the function's own attributes."""
        if name == "_function":
            raise AttributeError(name)
        return getattr(self._function, name)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind like a function when it is a class's attribute."""
        return self if instance is None else types.MethodType(self, instance)


def _is_users(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return "site-packages" not in file and package not in _OWN
