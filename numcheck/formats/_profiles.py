# SPDX-License-Identifier: Apache-2.0
"""How frameworks and devices cast, where they differ from rounding once.

Each profile is data: for each format the choices its casts make. What is not listed
rounds once, to nearest-even, and gives Inf where the format has it, else NaN.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from numcheck.errors import ArgumentError
from numcheck.formats._arrays import as_array
from numcheck.formats._modes import checked
from numcheck.formats._registry import get
from numcheck.formats._scalar import quantize_scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from numcheck.formats._format import Format, Rounding
    from numcheck.formats._modes import Overflow

__all__ = ["CastRule", "Profile", "cast", "cast_rule"]

Profile = Literal["torch", "jax", "ml_dtypes", "cuda", "ascend", "ascend_saturation"]
NanBecomes = Literal["nan", "zero", "negative_zero", "opposite_zero", "max"]


@dataclasses.dataclass(frozen=True, slots=True)
class CastRule:
    """What one cast does.

    Attributes:
        overflow: as in `quantize`.
        rounding: as in `quantize`; None for the format's own.
        via_float32: whether float64 is first rounded to float32, which rounds twice.
        flush_float32: whether subnormal float32 numbers on that way become zero.
        nan: what NaN becomes; ``opposite_zero`` has the other sign than it.
        unsigned: whether the sign is dropped and zero becomes the smallest value.
    """

    overflow: Overflow = "ieee"
    rounding: Rounding | None = None
    via_float32: bool = False
    flush_float32: bool = False
    nan: NanBecomes = "nan"
    unsigned: bool = False


_ONCE: Final = CastRule()
_TWICE: Final = CastRule(via_float32=True)
_FP8: Final = (
    "float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e4m3b11fnuz",
)  # fmt: skip
_WITHOUT_NAN: Final = (
    "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "float4_e1m2fn",
)  # fmt: skip

_RULES: Final[Mapping[Profile, Mapping[str, CastRule]]] = {
    # Seen in torch 2.13 on CPU.
    "torch": {
        **dict.fromkeys(("float16", "bfloat16", *_FP8), _TWICE),
        "float8_e4m3fn": CastRule("saturate", via_float32=True),
        "float8_e8m0fnu": CastRule(via_float32=True, unsigned=True),
    },
    # Seen in jax 0.10 on CPU, under jit. Run operator by operator, XLA on CPU also
    # takes subnormal float32 numbers for zero on their way to bfloat16.
    "jax": {
        "float16": _TWICE,
        "bfloat16": CastRule(via_float32=True, flush_float32=True),
        **dict.fromkeys(_WITHOUT_NAN, CastRule(nan="negative_zero")),
    },
    # Seen in ml_dtypes 0.6; numpy's own float16 is rounded once.
    "ml_dtypes": {
        **dict.fromkeys(("bfloat16", "float8_e8m0fnu", *_FP8), _TWICE),
        **dict.fromkeys(_WITHOUT_NAN, CastRule(via_float32=True, nan="opposite_zero")),
    },
    # CUDA Math API, the conversions with __NV_SATFINITE.
    "cuda": {
        **dict.fromkeys(_FP8, CastRule("saturate")),
        **dict.fromkeys(_WITHOUT_NAN, CastRule("saturate", nan="max")),
        "float8_e8m0fnu": CastRule("saturate", rounding="up"),
    },
    "ascend": {},
    # INF_NAN_MODE_FORCE_DISABLE=1, and the only mode of 910A and 310P.
    "ascend_saturation": {},
}
_DEFAULTS: Final[Mapping[Profile, CastRule]] = {
    "ascend_saturation": CastRule("saturate", nan="zero"),
}


def cast_rule(fmt: object, profile: Profile) -> CastRule:
    """Return what a cast to `fmt` does under a profile.

    Example:
        >>> cast_rule("e4m3", "torch").overflow, cast_rule("e4m3", "jax").overflow
        ('saturate', 'ieee')
    """
    checked(profile, get_args(Profile), "profile")
    name = get(fmt).name
    return _RULES[profile].get(name, _DEFAULTS.get(profile, _ONCE))


def cast(x: object, fmt: object, profile: Profile) -> NDArray[np.floating[Any]]:
    """Return `x` as a framework's or device's cast to a scalar format leaves it.

    Args:
        x: array of real numbers.
        fmt: the target, a scalar floating-point format.
        profile: ``torch``, ``jax``, ``ml_dtypes``, ``cuda`` (saturating conversions),
            ``ascend`` (INF_NAN mode) or ``ascend_saturation`` (overflow and Inf give
            the largest number, NaN gives zero).

    Returns:
        As `quantize`.

    Raises:
        ArgumentError: the format is one of integers, or the profile unknown.
        UnknownFormatError: no scalar format has that name.
        ArgumentTypeError: `x` holds no real numbers.

    Example:
        >>> cast([500.0, float("inf")], "e4m3", "torch").tolist()
        [448.0, 448.0]
        >>> cast([500.0, float("inf")], "e4m3", "jax").tolist()
        [nan, nan]
        >>> cast([1 + 2**-8 + 2**-40], "bf16", "torch").item(), 1 + 2**-7
        (1.0, 1.0078125)
    """
    rule, target = cast_rule(fmt, profile), get(fmt)
    if target.kind == "integer":
        raise ArgumentError(f"casts to {target.name} are no rounding of floats")
    array = as_array(x, "x")
    with np.errstate(invalid="ignore"):  # a signalling NaN of ml_dtypes
        unknown = np.isnan(array) if array.dtype.kind not in "iub" else None
    if rule.via_float32 and array.dtype.itemsize == 8 and target.bits < 32:
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = array.astype(np.float32)
        if rule.flush_float32:
            narrow[np.abs(narrow) < get(np.float32).smallest_normal] *= 0
        array = narrow
    if rule.unsigned:
        array = np.maximum(np.abs(array), array.dtype.type(target.smallest_normal))
    result = quantize_scalar(
        array, target, rounding=rule.rounding, overflow=rule.overflow
    )
    if unknown is not None and rule.nan != "nan":
        negative = np.signbit(array[unknown])
        result[unknown] = _instead_of_nan(rule.nan, target, negative)
    return result


def _instead_of_nan(
    nan: NanBecomes, fmt: Format, negative: NDArray[np.bool_]
) -> float | NDArray[np.float64]:
    if nan == "opposite_zero":
        return np.where(negative, 0.0, -0.0)
    return {"zero": 0.0, "negative_zero": -0.0, "max": fmt.max}[nan]
