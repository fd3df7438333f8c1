# SPDX-License-Identifier: Apache-2.0
"""What number formats are and what they do to numbers."""

from __future__ import annotations

from numcheck.formats._codes import code_dtype, code_values, decode, value_dtype
from numcheck.formats._finfo import finfo
from numcheck.formats._format import Format, Kind, Rounding, Specials
from numcheck.formats._registry import aliases, get, names

__all__ = [
    "Format",
    "Kind",
    "Rounding",
    "Specials",
    "aliases",
    "code_dtype",
    "code_values",
    "decode",
    "finfo",
    "get",
    "names",
    "value_dtype",
]
