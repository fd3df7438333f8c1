# SPDX-License-Identifier: Apache-2.0
"""``numcheck doctor``: what is installed here, what is wrong, what can be watched."""

from __future__ import annotations

import dataclasses
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Literal

import click

from numcheck.adapters import adapters
from numcheck.report.messages import has_text, text
from numcheck.shared_options import lang_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
        text: what was found, with the way out where it is a problem: a plain text, or
            the key of one in both languages, below ``doctor.``.
        fields: what fills that text.
    """

    topic: str
    state: State
    text: str
    fields: Mapping[str, str | int] = dataclasses.field(default_factory=dict)

    def told(self, lang: str | None = None) -> str:
        """Return the text in a language.

        Example:
            >>> Check("npu", "ok", "keeps").told("en")
            'overflow keeps Inf and NaN'
            >>> Check("mine", "ok", "the device answers").told("en")
            'the device answers'
        """
        key = f"doctor.{self.text}"
        return text(key, lang, **self.fields) if has_text(key) else self.text


@click.command()
@lang_option
def doctor(lang: str | None) -> None:
    """Say what is installed, which devices answer, and what can be watched on them."""
    checks = [*_own(), *(c for a in adapters() for c in a.examine())]
    width = max(len(c.topic) for c in checks)
    for check in checks:
        sign = click.style(_SIGNS[check.state], fg=_COLOURS[check.state])
        click.echo(f"[{sign}] {check.topic:<{width}}  {check.told(lang)}")
    problems = sum(c.state == "problem" for c in checks)
    click.echo(text("doctor.count", lang, n=problems))
    click.get_current_context().exit(int(problems > 0))


def _own() -> Iterator[Check]:
    own = {"version": version("numcheck"), "python": platform.python_version()}
    yield Check("numcheck", "ok", "numcheck", own)
    yield Check("system", "ok", "system", {"platform": platform.platform()})
    yield from _packages("core", ("numpy", "ml_dtypes", "safetensors"))
    if not adapters():
        yield Check("adapters", "problem", "no_adapter")


def _packages(topic: str, names: Iterable[str]) -> Iterator[Check]:
    found = [f"{name} {v}" for name in names if (v := installed(name)) is not None]
    yield Check(topic, "ok", "packages", {"packages": ", ".join(found)})


def broken_import(framework: str, error: Exception) -> Check:
    """Return what to say of a framework that cannot be imported.

    Args:
        framework: name of its package and of numcheck's extra.
        error: why the import failed.
    """
    if installed(framework) is None:
        return Check(framework, "note", "not_installed", {"framework": framework})
    is_npu = framework == "torch" and installed("torch_npu") is not None
    key = "cannot_import_npu" if is_npu else "cannot_import"
    return Check(framework, "problem", key, {"why": str(error)})


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
