# SPDX-License-Identifier: Apache-2.0
"""What no report may print, by Unicode's own categories."""

from __future__ import annotations

import unicodedata

ACTING = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def acting(text: str) -> list[str]:
    """Returns the characters that a terminal might obey instead of showing."""
    lines = text.replace("\n", "")
    return [c for c in lines if unicodedata.category(c) in ACTING]
