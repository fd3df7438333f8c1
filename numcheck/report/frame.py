# SPDX-License-Identifier: Apache-2.0
"""What every page is made in: one file, both languages, one style, its own scripts."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2

import numcheck
from numcheck.report.messages import LANGUAGES, catalogue, language, text
from numcheck.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Pair", "about", "both_texts", "framed", "script_texts"]

Pair = tuple[str, str]
"""A sentence in English and in Chinese; the page shows one of them."""


def framed(
    template: str,
    scripts: Sequence[str],
    data: Mapping[str, Any],
    lang: str | None,
    **fields: object,
) -> str:
    """Return a page that needs no network and no other file.

    Args:
        template: file of `numcheck/report/web` that extends ``frame.html``.
        scripts: files of that folder, run in this order.
        data: JSON values that the scripts read.
        lang: language it opens in; the reader can switch.
        fields: what the template names.
    """
    script = "\n".join(_file(name) for name in scripts)
    return (
        _environment()
        .get_template(template)
        .render(
            lang=language(lang),
            data=_script_safe(data),
            style=_file("page.css"),
            script=script,
            script_hash=_hash(script),
            version=numcheck.__version__,
            **fields,
        )
    )


def about(meta: Mapping[str, Any]) -> list[str]:
    """Return where a run was made: names and versions, the same in any language.

    Example:
        >>> about({"framework": "torch", "torch": "2.13.0", "device": "cpu"})
        ['torch 2.13.0', 'cpu']
    """
    framework = str(meta.get("framework", ""))
    known = [
        f"{framework} {meta.get(framework, '')}".strip(),
        *(meta.get(name) for name in ("device", "devices")),
        f"Python {meta['python']}" if meta.get("python") else "",
    ]
    versions = meta.get("versions")
    if isinstance(versions, Mapping):
        known += [f"{n} {v}" for n, v in versions.items() if n != framework]
    return [printable(str(value)) for value in known if value]


def both_texts(key: str, /, **fields: object) -> Pair:
    """Return a text in both languages."""
    english, chinese = (text(key, lang, **fields) for lang in LANGUAGES)
    return english, chinese


def script_texts(prefix: str) -> Mapping[str, Mapping[str, str]]:
    """Return the texts below a key, by language, for a page's scripts to say."""
    start = prefix + "."
    return {
        lang: {
            key.removeprefix(start): value
            for key, value in catalogue(lang).items()
            if key.startswith(start)
        }
        for lang in LANGUAGES
    }


def _script_safe(data: Mapping[str, Any]) -> str:
    """Return JSON that cannot end its script block, nor start a comment in it."""
    written = json.dumps(
        data, allow_nan=False, ensure_ascii=True, separators=(",", ":")
    )
    return written.replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(script: str) -> str:
    """Return what the page's policy allows as its only script."""
    digest = hashlib.sha256(script.encode()).digest()
    return base64.b64encode(digest).decode("ascii")


@functools.cache
def _file(name: str) -> str:
    return (files("numcheck.report") / "web" / name).read_text("utf-8")


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_file),
    )
    environment.globals["both_texts"] = both_texts
    return environment
