# SPDX-License-Identifier: Apache-2.0
"""The named scalar formats and the names other projects give them."""

from __future__ import annotations

from typing import Final

from numcheck.formats._format import Format
from numcheck.formats._hifloat import hifloat8_values

__all__ = ["ALIASES", "SCALAR_FORMATS"]

_ROWS: Final = (
    # IEEE 754-2019 §3.6, and the 8-bit-exponent formats derived from binary32.
    Format("float64", bits=64, precision=53, bias=1023),
    Format("float32", bits=32, precision=24, bias=127),
    Format("tf32", bits=19, precision=11, bias=127),
    Format("hf32", bits=20, precision=12, bias=127),
    Format("float16", bits=16, precision=11, bias=15),
    Format("bfloat16", bits=16, precision=8, bias=127),
    # OCP OFP8 v1.0, and the variants of ml_dtypes.
    Format("float8_e5m2", bits=8, precision=3, bias=15),
    Format("float8_e4m3", bits=8, precision=4, bias=7),
    Format("float8_e3m4", bits=8, precision=5, bias=3),
    Format("float8_e4m3fn", bits=8, precision=4, bias=7, specials="fn"),
    Format("float8_e4m3fnuz", bits=8, precision=4, bias=8, specials="fnuz"),
    Format("float8_e5m2fnuz", bits=8, precision=3, bias=16, specials="fnuz"),
    Format("float8_e4m3b11fnuz", bits=8, precision=4, bias=11, specials="fnuz"),
    # OCP MX v1.0 §5.3.
    Format("float6_e2m3fn", bits=6, precision=4, bias=1, specials="finite"),
    Format("float6_e3m2fn", bits=6, precision=3, bias=3, specials="finite"),
    Format("float4_e2m1fn", bits=4, precision=2, bias=1, specials="finite"),
    Format("float4_e1m2fn", bits=4, precision=3, bias=1, specials="finite"),
    # IEEE P3109: extended formats have Inf, finite ones do not; neither has -0.
    Format("p3109_k8p3se", bits=8, precision=3, bias=16, specials="extended"),
    Format("p3109_k8p4se", bits=8, precision=4, bias=8, specials="extended"),
    Format("p3109_k8p5se", bits=8, precision=5, bias=4, specials="extended"),
    Format("p3109_k8p3sf", bits=8, precision=3, bias=16, specials="fnuz"),
    Format("p3109_k8p4sf", bits=8, precision=4, bias=8, specials="fnuz"),
    Format(
        "float8_e8m0fnu",
        bits=8,
        precision=1,
        bias=127,
        kind="scale",
        signed=False,
        native_rounding="nearest_away",
    ),
    Format(
        "hifloat8",
        bits=8,
        precision=4,
        kind="tapered",
        values=hifloat8_values(),
        native_rounding="nearest_away",
    ),
    Format("int8", bits=8, precision=7, kind="integer", specials="finite"),
    Format("int4", bits=4, precision=3, kind="integer", specials="finite"),
    Format(
        "uint8", bits=8, precision=8, kind="integer", specials="finite", signed=False
    ),
    Format(
        "uint4", bits=4, precision=4, kind="integer", specials="finite", signed=False
    ),
    Format("int2", bits=2, precision=1, kind="integer", specials="finite"),
    Format("int16", bits=16, precision=15, kind="integer", specials="finite"),
)

SCALAR_FORMATS: Final[dict[str, Format]] = {row.name: row for row in _ROWS}

# Lower case, words joined by one underscore, as the registry normalises a name.
ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "float64": ("fp64", "f64", "double", "binary64", "cuda_r_64f"),
    "float32": ("fp32", "f32", "single", "binary32", "float", "cuda_r_32f"),
    "tf32": ("tensorfloat32", "fp19", "tensorfloat_32"),
    "hf32": ("hifloat32",),
    "float16": ("fp16", "f16", "half", "binary16", "cuda_r_16f"),
    "bfloat16": ("bf16", "brain_float16", "cuda_r_16bf"),
    "float8_e5m2": (
        "fp8_e5m2", "e5m2", "f8_e5m2", "f8e5m2", "float8e5m2", "ocp_e5m2",
        "cuda_r_8f_e5m2", "fp8e5", "float8e5", "kfloat8e5m2",
    ),
    "float8_e4m3": ("e4m3_ieee", "f8e4m3"),
    "float8_e3m4": ("e3m4_ieee", "f8e3m4", "e3m4"),
    "float8_e4m3fn": (
        "fp8_e4m3", "e4m3", "e4m3fn", "fp8_e4m3fn", "f8_e4m3", "f8_e4m3fn",
        "f8e4m3fn", "float8e4m3fn", "ocp_e4m3", "cuda_r_8f_e4m3", "fp8e4nv",
        "float8e4nv", "kfloat8e4m3",
    ),
    "float8_e4m3fnuz": (
        "e4m3fnuz", "f8e4m3fnuz", "float8e4m3fnuz", "fp8_e4m3fnuz", "fp8e4b8",
        "float8e4b8",
    ),
    "float8_e5m2fnuz": (
        "e5m2fnuz", "f8e5m2fnuz", "float8e5m2fnuz", "fp8_e5m2fnuz", "fp8e5b16",
        "float8e5b16",
    ),
    "float8_e4m3b11fnuz": ("e4m3b11fnuz", "f8e4m3b11fnuz", "e4m3b11"),
    "float6_e2m3fn": (
        "fp6_e2m3", "e2m3", "f6e2m3fn", "ocp_e2m3", "e2m3fn", "f6_e2m3",
        "cuda_r_6f_e2m3",
    ),
    "float6_e3m2fn": (
        "fp6_e3m2", "e3m2", "f6e3m2fn", "ocp_e3m2", "e3m2fn", "f6_e3m2",
        "cuda_r_6f_e3m2",
    ),
    "float4_e2m1fn": (
        "fp4", "fp4_e2m1", "e2m1", "f4e2m1fn", "float4e2m1", "ocp_e2m1",
        "e2m1fn", "float4_e2m1fn_x2", "f4", "cuda_r_4f_e2m1", "float4_e2m1",
    ),
    "float4_e1m2fn": ("fp4_e1m2", "e1m2"),
    "p3109_k8p3se": ("binary8p3se",),
    "p3109_k8p4se": ("binary8p4se",),
    "p3109_k8p5se": ("binary8p5se",),
    "p3109_k8p3sf": ("binary8p3sf",),
    "p3109_k8p4sf": ("binary8p4sf",),
    "float8_e8m0fnu": (
        "e8m0", "e8m0fnu", "f8_e8m0", "f8e8m0fnu", "float8_e8m0", "float8e8m0",
        "ue8m0", "cuda_r_8f_ue8m0",
    ),
    "hifloat8": ("hif8", "hi_float8"),
}  # fmt: skip
