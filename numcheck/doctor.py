# SPDX-License-Identifier: Apache-2.0
"""``numcheck doctor``: what is installed here, what is wrong, what can be watched."""

from __future__ import annotations

import dataclasses
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Literal

import click

from numcheck.adapters import adapters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Check", "broken_import", "doctor", "installed"]

State = Literal["ok", "note", "problem"]
_SIGNS: dict[State, str] = {"ok": " ok ", "note": "note", "problem": "FAIL"}
_COLOURS: dict[State, str] = {"ok": "green", "note": "yellow", "problem": "red"}


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        topic: what it is about: ``torch``, ``npu``, ``jax``…
        state: whether it is as it should be.
        text: what was found, in English, with the way out where it is a problem.
    """

    topic: str
    state: State
    text: str


@click.command()
def doctor() -> None:
    """Say what is installed, which devices answer, and what can be watched on them.

    Exits with 0 when nothing is wrong, 1 when something is.
    """
    checks = [*_own(), *(c for a in adapters() for c in a.examine())]
    width = max(len(c.topic) for c in checks)
    for check in checks:
        sign = click.style(_SIGNS[check.state], fg=_COLOURS[check.state])
        click.echo(f"[{sign}] {check.topic:<{width}}  {check.text}")
    problems = sum(c.state == "problem" for c in checks)
    click.echo(f"{problems} problem{'' if problems == 1 else 's'} found")
    click.get_current_context().exit(int(problems > 0))


def _own() -> Iterator[Check]:
    yield Check("numcheck", "ok", f"{version('numcheck')}, Python {_python()}")
    yield Check("system", "ok", platform.platform())
    yield from _packages("core", ("numpy", "ml_dtypes", "safetensors"))
    if not adapters():
        text = "no adapter is installed: pip install 'numcheck[torch]' or [jax,flax]"
        yield Check("adapters", "problem", text)


def _packages(topic: str, names: Iterable[str]) -> Iterator[Check]:
    found = [f"{name} {v}" for name in names if (v := installed(name)) is not None]
    yield Check(topic, "ok", ", ".join(found))


def _python() -> str:
    return platform.python_version()


def broken_import(framework: str, error: Exception) -> Check:
    """Return what to say of a framework that cannot be imported.

    Args:
        framework: name of its package and of numcheck's extra.
        error: why the import failed.
    """
    if installed(framework) is None:
        text = f"not installed: pip install 'numcheck[{framework}]'"
        return Check(framework, "note", text)
    text = f"cannot be imported: {error}"
    if framework == "torch" and installed("torch_npu") is not None:
        text += "; set TORCH_DEVICE_BACKEND_AUTOLOAD=0, or install CANN"
    return Check(framework, "problem", text)


def installed(package: str) -> str | None:
    """Return the version of an installed package; None when it is not installed.

    Example:
        >>> installed("no-such-package") is None
        True
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None
