# SPDX-License-Identifier: Apache-2.0
"""The named block formats."""

from __future__ import annotations

import functools
from typing import Final

from numcheck.formats._block_format import BlockFormat
from numcheck.formats._format import Format
from numcheck.formats._table import SCALAR_FORMATS

__all__ = ["BLOCK_ALIASES", "BLOCK_FORMATS", "block_names"]

_E8M0: Final = SCALAR_FORMATS["float8_e8m0fnu"]
_FLOAT32: Final = SCALAR_FORMATS["float32"]
_E4M3: Final = SCALAR_FORMATS["float8_e4m3fn"]
_E2M1: Final = SCALAR_FORMATS["float4_e2m1fn"]
_E5M0: Final = Format(
    "float5_e5m0fnu", bits=5, precision=1, bias=15, kind="scale", signed=False
)
# HiF4's scale: no sign, no zero, no subnormals, all ones is NaN.
_E6M2_BIAS: Final = 48


def _e6m2_values() -> tuple[float, ...]:
    finite = [
        (1 + (code & 3) / 4) * 2.0 ** ((code >> 2) - _E6M2_BIAS) for code in range(255)
    ]
    return (*finite, float("nan"))


_E6M2: Final = Format(
    "float8_e6m2fnu",
    bits=8,
    precision=3,
    kind="tapered",
    signed=False,
    values=_e6m2_values(),
)


def _magnitude_bits(bits: int) -> Format:
    """Return sign and magnitude with one bit before the point: |k| < 2**bits.

    Such integers are the numbers of a float whose exponent field has one bit.
    """
    return Format(
        f"sm{bits + 1}", bits=bits + 1, precision=bits, bias=1, specials="finite"
    )


def _mx(name: str, element: str) -> BlockFormat:
    return BlockFormat(name, SCALAR_FORMATS[element], _E8M0, 32)


def _shared_exponent(name: str, magnitude_bits: int, scale: Format) -> BlockFormat:
    return BlockFormat(name, _magnitude_bits(magnitude_bits), scale, 16)


_ROWS: Final = (
    # OCP MX v1.0 §5.2.
    _mx("mxfp8_e4m3", "float8_e4m3fn"),
    _mx("mxfp8_e5m2", "float8_e5m2"),
    _mx("mxfp6_e2m3", "float6_e2m3fn"),
    _mx("mxfp6_e3m2", "float6_e3m2fn"),
    _mx("mxfp4_e2m1", "float4_e2m1fn"),
    BlockFormat("mxint8", _magnitude_bits(7), _E8M0, 32),
    BlockFormat("nvfp4", _E2M1, _E4M3, 16, tensor_scale=_FLOAT32),
    BlockFormat("fp8_block_1x128", _E4M3, _FLOAT32, 128),
    BlockFormat("fp8_block_128x128", _E4M3, _FLOAT32, (128, 128)),
    # MSFP-n: one sign, n - 9 magnitude bits and the 8 bits of the box's exponent.
    *(_shared_exponent(f"msfp{n}", n - 9, _E8M0) for n in range(11, 17)),
    *(_shared_exponent(f"bfp{n}_b", n - 1, _E8M0) for n in (8, 4, 2)),
    *(_shared_exponent(f"bfp{n}_a", n - 1, _E5M0) for n in (8, 4, 2)),
    BlockFormat(
        "hif4", SCALAR_FORMATS["float4_e1m2fn"], _E6M2, 64, micro_exponents=(8, 16)
    ),
)

BLOCK_FORMATS: Final[dict[str, BlockFormat]] = {row.name: row for row in _ROWS}

BLOCK_ALIASES: Final[dict[str, str]] = {
    "mxfp8": "mxfp8_e4m3",
    "mxfp6": "mxfp6_e2m3",
    "mxfp4": "mxfp4_e2m1",
    "mx_fp4": "mxfp4_e2m1",
    "mxfp8_e4m3fn": "mxfp8_e4m3",
    "mxfp4_e2m1fn": "mxfp4_e2m1",
    "nv_fp4": "nvfp4",
    "hifloat4": "hif4",
    "deepseek_1x128": "fp8_block_1x128",
    "deepseek_128x128": "fp8_block_128x128",
}


@functools.cache
def block_names() -> tuple[str, ...]:
    """Return the canonical names of all block formats.

    Example:
        >>> "mxfp4_e2m1" in block_names()
        True
    """
    return tuple(BLOCK_FORMATS)
