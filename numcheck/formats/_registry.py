# SPDX-License-Identifier: Apache-2.0
"""Finding a format by any name or dtype that a framework uses for it."""

from __future__ import annotations

import difflib
import functools
import re
from typing import Final

from numcheck.errors import UnknownFormatError
from numcheck.formats._block_format import BlockFormat
from numcheck.formats._block_table import BLOCK_ALIASES, BLOCK_FORMATS
from numcheck.formats._format import Format
from numcheck.formats._table import ALIASES, SCALAR_FORMATS

__all__ = ["aliases", "get", "lookup", "names", "normalise"]

_BY_NAME: Final[dict[str, str]] = {
    alias: name for name, known in ALIASES.items() for alias in (name, *known)
}
# e5m10 and its like: IEEE 754 rules with those two widths.
_FLOAT_NAME: Final = re.compile(r"e(\d+)m(\d+)")
# q8.8: signed fixed point, the sign counted among the integer bits; uq8.8: unsigned.
_FIXED_NAME: Final = re.compile(r"(u?)q(\d+)[._](\d+)")
# int8; the quantised qint8 and quint8 of PyTorch; s8, u8 and i8 of XLA and MLIR.
_INTEGER_NAME: Final = re.compile(r"(?:q?(u?)int|(u)|[si])(\d+)")
# fp8 and its like name a width alone.
_FAMILY_NAME: Final = re.compile(r"(?:fp|float|f)_?(\d+)")
# What C headers and C APIs put around a name: DT_FLOAT16, __nv_fp8_e4m3, half_t.
_DECORATION: Final = re.compile(r"^(?:dt_|acl_|__nv_|_+)|_t$")
_QUOTED: Final = re.compile(r"'([\w.]+)'")
_REMARK: Final = re.compile(r"_*\(.*\)$")
_MAX_EXPONENT_BITS: Final = 11
_MAX_MANTISSA_BITS: Final = 52
_MAX_INTEGER_BITS: Final = 64
_MAX_NAMED: Final = 4


def names() -> tuple[str, ...]:
    """Return the canonical names of all scalar formats.

    Example:
        >>> "float8_e4m3fn" in names()
        True
    """
    return tuple(SCALAR_FORMATS)


def aliases(name: str) -> tuple[str, ...]:
    """Return the other names under which `get` knows the format `name`.

    Example:
        >>> aliases("bfloat16")[0]
        'bf16'
    """
    return ALIASES.get(name, ())


def get(name_or_dtype: object) -> Format:
    """Return the scalar format that a name, a dtype or an array stands for.

    Args:
        name_or_dtype: a `Format` (returned as it is), a name of any framework
            (``fp16``, ``torch.bfloat16``, ``e4m3``), an ad-hoc name (``e5m10``,
            ``q8.8``, ``int12``), a dtype, or an object with a ``dtype``.

    Returns:
        The format; equal ones for all names of one.

    Raises:
        UnknownFormatError: no format is known by that name; the text suggests the
            nearest one.

    Example:
        >>> get("torch.float16").name, get("bf16").emax, get("e5m10").max
        ('float16', 127, 65504.0)
    """
    if isinstance(name_or_dtype, Format):
        return name_or_dtype
    return _by_text(_text_of(name_or_dtype))


def lookup(name_or_dtype: object) -> Format | BlockFormat:
    """Return the scalar or block format that a name or dtype stands for.

    As `get`, but block formats (``mxfp4``, ``nvfp4``, ``msfp12``) are found as well.

    Raises:
        UnknownFormatError: as `get`.

    Example:
        >>> lookup("mxfp4").name, lookup("fp16").name
        ('mxfp4_e2m1', 'float16')
    """
    if isinstance(name_or_dtype, BlockFormat):
        return name_or_dtype
    if isinstance(name_or_dtype, str):
        block = _block_by_text(name_or_dtype)
        if block is not None:
            return block
    return get(name_or_dtype)


def normalise(text: str) -> str:
    """Return `text` as the tables spell names: lower case, no module prefix.

    Example:
        >>> normalise("torch.Float16"), normalise("q8.8"), normalise("FP8-E4M3")
        ('float16', 'q8.8', 'fp8_e4m3')
        >>> normalise("<class 'jax.numpy.bfloat16'>"), normalise("DT_FLOAT16")
        ('bfloat16', 'float16')
    """
    if match := _QUOTED.search(text):
        text = match[1]
    text = text.strip().strip("<>'\"").lower().replace("-", "_").replace(" ", "_")
    if _FIXED_NAME.fullmatch(text):
        return text
    name = _REMARK.sub("", text).rpartition(".")[2].strip("'\"")
    return _DECORATION.sub("", name)


def _text_of(given: object) -> str:
    if isinstance(given, str):
        return given
    if given is float:
        return "float64"
    if isinstance(given, type):
        return given.__name__
    inner = getattr(given, "dtype", given)
    name = getattr(inner, "name", None)
    return name if isinstance(name, str) else str(inner)


@functools.lru_cache(maxsize=512)
def _by_text(text: str) -> Format:
    name = normalise(text)
    canonical = _BY_NAME.get(name) or _BY_NAME.get(name.rstrip("_"))
    if canonical is not None:
        return SCALAR_FORMATS[canonical]
    if name in SCALAR_FORMATS:
        return SCALAR_FORMATS[name]
    made = _ad_hoc(name)
    if made is None:
        raise UnknownFormatError(_unknown_text(text, name))
    return made


def _ad_hoc(name: str) -> Format | None:
    if match := _FLOAT_NAME.fullmatch(name):
        return _ad_hoc_float(name, int(match[1]), int(match[2]))
    if match := _FIXED_NAME.fullmatch(name):
        whole, fraction = int(match[2]), int(match[3])
        return _integer(name, whole + fraction, fraction, signed=not match[1])
    if match := _INTEGER_NAME.fullmatch(name):
        unsigned, width = match[1] or match[2], int(match[3])
        known = f"{'u' if unsigned else ''}int{width}"
        return SCALAR_FORMATS.get(known) or _integer(
            known, width, 0, signed=not unsigned
        )
    if name in ("bool", "bool_", "pred"):
        return _integer("bool", 1, 0, signed=False)
    return None


def _ad_hoc_float(name: str, exponent_bits: int, mantissa_bits: int) -> Format | None:
    # One exponent bit would leave no normal number beside Inf.
    if not 2 <= exponent_bits <= _MAX_EXPONENT_BITS:
        return None
    if not 0 < mantissa_bits <= _MAX_MANTISSA_BITS:
        return None
    return Format(
        name,
        bits=1 + exponent_bits + mantissa_bits,
        precision=mantissa_bits + 1,
        bias=(1 << (exponent_bits - 1)) - 1,
    )


def _integer(name: str, bits: int, fraction: int, *, signed: bool) -> Format | None:
    if not (2 if signed else 1) <= bits <= _MAX_INTEGER_BITS:
        return None
    return Format(
        name,
        bits=bits,
        precision=bits - signed,
        kind="integer",
        specials="finite",
        signed=signed,
        fraction_bits=fraction,
    )


def _block_by_text(text: str) -> BlockFormat | None:
    name = normalise(text)
    return BLOCK_FORMATS.get(BLOCK_ALIASES.get(name, name))


def _unknown_text(text: str, name: str) -> str:
    block = _block_by_text(text)
    if block is not None:
        return (
            f"{block.name} is a block format, and one format for single numbers is "
            f"needed here; its elements are {block.element.name}"
        )
    near = _family(name)
    if not near:
        known = [*_BY_NAME, *SCALAR_FORMATS, *BLOCK_FORMATS, *BLOCK_ALIASES]
        swapped = [one for one in known if sorted(one) == sorted(name)]
        near = swapped[:1] or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    quoted = [repr(one) for one in near]
    meant = " or ".join(filter(None, (", ".join(quoted[:-1]), *quoted[-1:])))
    hint = f"; did you mean {meant}?" if meant else ""
    return (
        f"unknown number format {text!r}{hint} "
        "(`numcheck formats` lists all; e5m10 and q8.8 style names also work)"
    )


def _family(name: str) -> list[str]:
    """Return the formats of a width, or those that begin like the name.

    Example:
        >>> _family("fp8")[:2], _family("msfp")[:2]
        (['float8_e4m3fn', 'float8_e5m2'], ['msfp11', 'msfp12'])
    """
    if match := _FAMILY_NAME.fullmatch(name):
        prefix = f"float{match[1]}_"
        found = [known for known in SCALAR_FORMATS if known.startswith(prefix)]
        return sorted(found, key=_by_use)[:_MAX_NAMED]
    if len(name) < len("mx"):
        return []
    every = [*SCALAR_FORMATS, *BLOCK_FORMATS]
    return [known for known in every if known.startswith(name)][:_MAX_NAMED]


def _by_use(name: str) -> tuple[bool, int]:
    """Order the formats of the Open Compute Project first, the more precise before."""
    standard = any(alias.startswith("ocp_") for alias in ALIASES[name])
    return not standard, -SCALAR_FORMATS[name].precision
