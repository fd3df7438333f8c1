# SPDX-License-Identifier: Apache-2.0
"""How a conversion behaves where the format's definition leaves a choice."""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

from numcheck.errors import ArgumentError
from numcheck.formats._format import Rounding

if TYPE_CHECKING:
    from numcheck.formats._format import Format

__all__ = ["Modes", "Overflow", "ScaleRule", "Subnormals", "checked", "modes_for"]

Overflow = Literal["ieee", "saturate", "satfinite", "wrap"]
Subnormals = Literal["keep", "flush"]
ScaleRule = Literal["floor", "ceil", "rceil", "even"]

_Choice = TypeVar("_Choice", bound=str)
_ROUNDINGS: Final = get_args(Rounding)
_OVERFLOWS: Final = get_args(Overflow)
_SUBNORMALS: Final = get_args(Subnormals)


@dataclasses.dataclass(frozen=True, slots=True)
class Modes:
    """The choices of one conversion, hashable so that tables can be cached by them.

    Attributes:
        rounding: direction in which a value between two representable ones goes.
        overflow: ``ieee`` gives Inf where the format has it, else NaN, else max;
            ``saturate`` gives max, for Inf too; ``satfinite`` gives max but keeps
            Inf; ``wrap`` (integers only) keeps the low bits.
        flush: whether subnormal results become zero.
    """

    rounding: Rounding = "nearest_even"
    overflow: Overflow = "ieee"
    flush: bool = False


def modes_for(
    fmt: Format, rounding: str | None, overflow: str, subnormals: str
) -> Modes:
    """Return checked modes, with the format's own rounding where none is given.

    Raises:
        ArgumentError: a mode's name is unknown, or `wrap` is asked of floats.

    Example:
        >>> from numcheck.formats import get
        >>> modes_for(get("hifloat8"), None, "ieee", "keep").rounding
        'nearest_away'
    """
    chosen = checked(rounding or fmt.native_rounding, _ROUNDINGS, "rounding")
    how = checked(overflow, _OVERFLOWS, "overflow")
    kept = checked(subnormals, _SUBNORMALS, "subnormals")
    if how == "wrap" and fmt.kind != "integer":
        raise ArgumentError(
            f"overflow='wrap' is for integer and fixed-point formats, not {fmt.name}"
        )
    return Modes(chosen, how, kept == "flush")


def checked(value: str, allowed: tuple[_Choice, ...], what: str) -> Any:  # noqa: ANN401 - one of `allowed`, which is a Literal's members
    """Return `value` when it is one of `allowed`, else raise a helpful error.

    Example:
        >>> checked("up", ("up", "down"), "rounding")
        'up'
    """
    if value in allowed:
        return value
    near = difflib.get_close_matches(str(value), allowed, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ArgumentError(
        f"{what} must be one of {', '.join(allowed)}, got {value!r}{hint}"
    )
