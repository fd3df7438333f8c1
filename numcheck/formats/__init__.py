# SPDX-License-Identifier: Apache-2.0
"""What number formats are and what they do to numbers."""

from __future__ import annotations

from numcheck.formats._accumulate import (
    AccumulationBound,
    accumulation_bound,
    matmul,
)
from numcheck.formats._affine import Affine, affine_decode, affine_encode, affine_for
from numcheck.formats._block_format import BlockFormat, Extent
from numcheck.formats._block_report import BlockResult
from numcheck.formats._block_table import block_names
from numcheck.formats._codes import code_dtype, code_values, decode, value_dtype
from numcheck.formats._encode import encode
from numcheck.formats._finfo import finfo
from numcheck.formats._format import Format, Kind, Rounding, Specials
from numcheck.formats._modes import Overflow, ScaleRule, Subnormals
from numcheck.formats._profiles import CastRule, Profile, cast, cast_rule
from numcheck.formats._quantize import block_report, quantize
from numcheck.formats._registry import aliases, get, lookup, names

__all__ = [
    "AccumulationBound",
    "Affine",
    "BlockFormat",
    "BlockResult",
    "CastRule",
    "Extent",
    "Format",
    "Kind",
    "Overflow",
    "Profile",
    "Rounding",
    "ScaleRule",
    "Specials",
    "Subnormals",
    "accumulation_bound",
    "affine_decode",
    "affine_encode",
    "affine_for",
    "aliases",
    "block_names",
    "block_report",
    "cast",
    "cast_rule",
    "code_dtype",
    "code_values",
    "decode",
    "encode",
    "finfo",
    "get",
    "lookup",
    "matmul",
    "names",
    "quantize",
    "value_dtype",
]
