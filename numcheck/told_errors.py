# SPDX-License-Identifier: Apache-2.0
"""numcheck's own errors in the language of the command line.

Exceptions speak English: they are searched for, and programs log them. Whoever types a
command is answered in the language of its help. So the errors that commands meet are
recognised by their English wording, which is among the messages as ``error.…``, and
told by the same message in the other language. Any other is shown as it was raised.
"""

from __future__ import annotations

import functools
import re
import string
from typing import TYPE_CHECKING

from numcheck.report.messages import LANGUAGES, catalogue, text

if TYPE_CHECKING:
    from numcheck.report.messages import Language

__all__ = ["in_words_of"]


def in_words_of(lang: Language, said: str) -> str:
    """Return in a language what an exception said.

    Example:
        >>> in_words_of("zh", "run folder 'x' does not exist")
        "运行目录 'x' 不存在"
        >>> in_words_of("zh", "an error of another kind")
        'an error of another kind'
    """
    if lang == LANGUAGES[0]:
        return said
    for key, pattern in _wordings():
        if found := pattern.fullmatch(said):
            return text(key, lang, **found.groupdict())
    return said


@functools.cache
def _wordings() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return each message's English wording, those that leave least open first."""
    english = {k: v for k, v in catalogue("en").items() if k.startswith("error.")}
    keys = sorted(english, key=lambda key: -len(_literal(english[key])))
    return tuple((key, re.compile(_pattern(english[key]), re.DOTALL)) for key in keys)


def _literal(template: str) -> str:
    return "".join(literal for literal, *_ in string.Formatter().parse(template))


def _pattern(template: str) -> str:
    parts = string.Formatter().parse(template)
    return "".join(
        re.escape(literal) + (f"(?P<{name}>.*?)" if name else "")
        for literal, name, *_ in parts
    )
