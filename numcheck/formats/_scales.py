# SPDX-License-Identifier: Apache-2.0
"""The scale that a block's largest magnitude asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numcheck.errors import ArgumentError
from numcheck.formats._modes import Modes
from numcheck.formats._rounders import round_once

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._block_format import BlockFormat
    from numcheck.formats._format import Format
    from numcheck.formats._modes import ScaleRule

__all__ = ["block_scales", "scale_exponents", "tensor_scale"]


def block_scales(
    amax: NDArray[np.float64],
    fmt: BlockFormat,
    rule: ScaleRule | None,
    shared: float = 1.0,
) -> NDArray[np.float64]:
    """Return the scale of every block, given its largest magnitude.

    Args:
        amax: largest magnitude of each block, finite.
        fmt: the block format.
        rule: how a power of two is chosen. By default ``floor`` for formats whose
            scale is one, and no power of two at all for the others.
        shared: the tensor's scale, for formats with two levels.

    Raises:
        ArgumentError: a rule is given and the format's scale cannot follow one.

    Example:
        >>> from numcheck.formats import lookup
        >>> block_scales(np.array([7.0, 448.0]), lookup("mxfp8_e4m3"), "floor")
        array([0.015625, 1.      ])
    """
    if fmt.scale.kind == "scale" or (rule and fmt.scale.name == "float32"):
        exponents = scale_exponents(amax, fmt.element, rule or "floor")
        exponents = np.clip(exponents, fmt.scale.emin, fmt.scale.emax)
        return np.ldexp(1.0, np.where(amax == 0, fmt.scale.emin, exponents))
    if rule is not None:
        raise ArgumentError(
            f"scale_rule={rule!r} chooses a power of two, and the scale of {fmt.name} "
            f"is {fmt.scale.name}; leave it out"
        )
    if fmt.tensor_scale is not None:
        return _two_level(amax, fmt, shared)
    wanted = round_once(amax / fmt.element_max, fmt.scale, Modes(overflow="saturate"))
    smallest = fmt.scale.smallest_subnormal
    return np.maximum(wanted, smallest, dtype=np.float64)


def scale_exponents(
    amax: NDArray[np.float64], element: Format, rule: ScaleRule
) -> NDArray[np.int32]:
    """Return the exponents of power-of-two scales, not yet limited to a range.

    ``floor`` (OCP MX v1.0 §6.3) takes the exponent of amax less that of the largest
    element; ``ceil`` rounds log2(amax) up; ``rceil`` takes the smallest scale under
    which amax does not exceed the largest element; ``even`` rounds amax to the
    element's precision first.

    Example:
        >>> from numcheck.formats import get
        >>> amax = np.array([6.0, 7.0, 8.0])
        >>> scale_exponents(amax, get("e2m1"), "floor").tolist()
        [0, 0, 1]
        >>> scale_exponents(amax, get("e2m1"), "rceil").tolist()
        [0, 1, 1]
    """
    fraction, power = np.frexp(amax)
    exponents = power - 1 - element.emax
    if rule == "ceil":
        exponents += fraction > 0.5
    elif rule == "rceil":
        exponents += np.ldexp(element.max, exponents) < amax
    elif rule == "even":
        units = np.ldexp(fraction, element.precision)
        exponents += np.floor(units + 0.5) >= 2.0**element.precision
    return np.asarray(exponents, np.int32)


def tensor_scale(amax: float, fmt: BlockFormat) -> float:
    """Return the second scale: it maps the tensor's amax to the largest product.

    Example:
        >>> from numcheck.formats import lookup
        >>> tensor_scale(448.0 * 6.0, lookup("nvfp4"))
        1.0
    """
    scale = np.float32(amax) / np.float32(fmt.scale.max * fmt.element_max)
    return float(scale) if scale > 0 else 1.0


def _two_level(
    amax: NDArray[np.float64], fmt: BlockFormat, shared: float
) -> NDArray[np.float64]:
    # In float32 and in this order, as the kernels compute it.
    wanted = amax.astype(np.float32) / np.float32(fmt.element_max) / np.float32(shared)
    limited = np.clip(wanted, fmt.scale.smallest_normal, fmt.scale.max)
    rounded = round_once(limited.astype(np.float32), fmt.scale, Modes())
    return (rounded * np.float32(shared)).astype(np.float64)
