# SPDX-License-Identifier: Apache-2.0
"""Every text numcheck shows, in English and Chinese, by key with named fields.

The texts of a language lie in the TOML files of its folder; nested tables are joined
with dots, so that ``[rule.N101]`` with ``title = "…"`` is the text ``rule.N101.title``.
Findings are told with ``rule.ID.title`` (what broke), ``rule.ID.cause`` (why; else the
title is used), ``evidence.KEY`` and ``advice.KEY``; `Finding`'s named fields fill them.

A word that follows a number is written with both its forms, behind the number's field:
``{n} {n:sample|samples}`` says "1 sample" and "2 samples".

A field that is a recorded remark (`numcheck.record.notice`) is told in the language of
the text it fills.

A text that is missing, or that a field is missing for, must never cost a user the
report: `text` then shows the key and the fields. With the environment variable
NUMCHECK_STRICT_MESSAGES set, as in the tests, it is an error.
"""

from __future__ import annotations

import functools
import locale
import os
import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Literal

from numcheck.errors import ArgumentError, NumcheckError
from numcheck.record.notice import read_notice
from numcheck.report.figures import compact
from numcheck.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "LANGUAGES",
    "Language",
    "MessageError",
    "has_text",
    "language",
    "text",
    "told",
]

Language = Literal["en", "zh"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "zh")
_KINDS: Final = {"nan": "NaN", "+inf": "Inf", "-inf": "-Inf", "inf": "±Inf"}


class MessageError(NumcheckError, LookupError):
    """A text, or a field that a text names, does not exist."""


def language(wanted: str | None = None) -> Language:
    """Return the language to speak: `wanted`, else NUMCHECK_LANG, else the locale's.

    Args:
        wanted: ``en`` or ``zh``, also with a region (``zh_CN``); None to ask the
            surroundings.

    Raises:
        ArgumentError: `wanted` is neither.

    Example:
        >>> language("zh_CN.UTF-8")
        'zh'
    """
    if wanted is not None:
        if _primary(str(wanted)) not in LANGUAGES:
            msg = f"lang must be one of {', '.join(LANGUAGES)}; got {wanted!r}"
            raise ArgumentError(msg)
        return "zh" if _primary(str(wanted)) == "zh" else "en"
    spoken = os.environ.get("NUMCHECK_LANG") or _locale_name()
    return "zh" if _primary(spoken) == "zh" else "en"


def _primary(tag: str) -> str:
    return tag.replace("-", "_").partition("_")[0].partition(".")[0].lower()


def _locale_name() -> str:
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(variable):
            return value
    name = locale.getlocale()[0] or ""
    return "zh" if name.startswith("Chinese") else name


def has_text(key: str) -> bool:
    """Whether a text exists under `key`."""
    return key in catalogue("en")


def text(key: str, lang: str | None = None, /, **fields: object) -> str:
    """Return the text under `key` in a language, its fields filled in.

    Args:
        key: such as ``report.chain`` or ``rule.N101.title``.
        lang: ``en`` or ``zh``; None to ask the surroundings (see `language`).
        fields: named values. A float without a format specification is shown with
            four significant digits; unprintable characters of strings are escaped.

    Example:
        >>> text("report.phase.forward", "zh")
        '前向'
    """
    try:
        return _filled(key, language(lang), fields)
    except MessageError:
        if os.environ.get("NUMCHECK_STRICT_MESSAGES"):
            raise
        listed = ", ".join(f"{k}={_shown(v, lang)}" for k, v in fields.items())
        return printable(f"{key} ({listed})" if listed else key)


@functools.cache
def catalogue(lang: Language) -> Mapping[str, str]:
    """Return all texts of a language by key.

    Raises:
        MessageError: two files of the language give the same key.
    """
    merged: dict[str, str] = {}
    folder = files("numcheck.report.messages") / lang
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".toml"):
            continue
        for key, value in _flat(tomllib.loads(file.read_text("utf-8")), ""):
            if key in merged:
                msg = f"the text {key!r} stands twice in {lang}, also in {file.name}"
                raise MessageError(msg)
            merged[key] = value
    return merged


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, str(value)


def _filled(key: str, lang: Language, fields: Mapping[str, object]) -> str:
    try:
        template = catalogue(lang)[key]
    except KeyError:
        msg = f"no text {key!r} in {lang}"
        raise MessageError(msg) from None
    try:
        return template.format_map({k: _Shown(k, v, lang) for k, v in fields.items()})
    except (KeyError, ValueError, TypeError, IndexError) as error:
        msg = f"text {key!r} in {lang} cannot be filled from {dict(fields)}: {error!r}"
        raise MessageError(msg) from error


class _Shown:
    """A field's value; formats as people read it unless the text says how."""

    def __init__(self, name: str, value: object, lang: Language) -> None:
        self.value = _KINDS.get(str(value), value) if name == "kind" else value
        self._lang = lang

    def __format__(self, specification: str) -> str:
        if not specification:
            return _shown(self.value, self._lang)
        if "|" in specification:
            one, many = specification.split("|")
            return one if str(self.value) == "1" else many
        return printable(format(self.value, specification))


def _shown(value: object, lang: str | None) -> str:
    if isinstance(value, float):
        return compact(value)
    return told(str(value), lang)


def told(said: str, lang: str | None = None) -> str:
    """Return a recorded remark in a language, any other text as it is, printable.

    Args:
        said: what `numcheck.record.notice.notice` wrote, or a sentence.
        lang: as for `text`.

    Example:
        >>> told("notice.nothing_called", "en")
        'notice.nothing_called'
        >>> told('notice.update_repeated {"step": 3}', "en")
        'the update of step 3 was repeated on repaired parameters'
    """
    remark = read_notice(said)
    if remark is None:
        return printable(said)
    try:
        return _filled(remark[0], language(lang), remark[1])
    except MessageError:  # of another version, or damaged
        return printable(said)
