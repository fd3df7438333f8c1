# SPDX-License-Identifier: Apache-2.0
"""What reading a file that is damaged, foreign or made to harm may raise."""

from __future__ import annotations

import lzma
import pickle  # for its error alone
import struct
import tokenize
import zipfile
import zlib
from typing import Final

__all__ = ["DAMAGE", "UNREADABLE"]

DAMAGE: Final[tuple[type[Exception], ...]] = (
    # Values of other kinds than expected, missing, out of range or nested without end.
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    # Sizes that no memory holds, headers that are no Python literal.
    MemoryError,
    SyntaxError,
    tokenize.TokenError,
    # Archives and records that are cut off, encrypted or packed in an unknown way.
    EOFError,
    RuntimeError,
    lzma.LZMAError,
    pickle.UnpicklingError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of the system, such as a file that is not there, are not among them."""

UNREADABLE: Final[tuple[type[Exception], ...]] = (OSError, *DAMAGE)
