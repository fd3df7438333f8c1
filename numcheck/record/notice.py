# SPDX-License-Identifier: Apache-2.0
"""A remark by its key and named values, so that a report says it in any language.

Remarks are recorded as text: the key alone, ``notice.traced``, or the key and its
values, ``notice.update_repeated {"step": 3}``. A value may be a remark itself. Older
records, and adapters of others, hold plain sentences; they are shown as they are.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["notice", "read_notice"]

Value = int | float | str
_REMARK: Final = re.compile(
    r"((?:notice|refusal|fault|unread)\.[a-z0-9_]+)(?: (\{.*\}))?", re.DOTALL
)


def notice(key: str, /, **fields: object) -> str:
    """Return a remark as it is recorded.

    Args:
        key: of a text in both languages: ``notice.…`` what is not watched or was
            done otherwise, ``refusal.…`` why something could not be run, ``fault.…``
            a part of numcheck, ``unread.…`` what of a record is damaged.
        fields: what fills that text. What is no number is kept as its ``str``.

    Example:
        >>> notice("notice.update_repeated", step=3)
        'notice.update_repeated {"step": 3}'
    """
    if not fields:
        return key
    kept = {name: _plain(value) for name, value in fields.items()}
    return f"{key} {json.dumps(kept, ensure_ascii=False, allow_nan=False)}"


def _plain(value: object) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float) else str(value)


def read_notice(said: str) -> tuple[str, Mapping[str, Value]] | None:
    """Return key and fields of a remark; None for any other text.

    Example:
        >>> read_notice('notice.update_repeated {"step": 3}')
        ('notice.update_repeated', {'step': 3})
        >>> read_notice("the step was not audited") is None
        True
    """
    found = _REMARK.fullmatch(said)
    if found is None:
        return None
    try:
        fields = json.loads(found[2] or "{}")
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(value, int | float | str) for value in fields.values()):
        return None
    return found[1], fields
