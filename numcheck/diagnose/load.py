# SPDX-License-Identifier: Apache-2.0
"""How much of its format's range a value fills."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numcheck.errors import UnknownFormatError
from numcheck.formats import get

if TYPE_CHECKING:
    from numcheck.formats import Format
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site

__all__ = ["format_of", "headroom_bits", "is_low_precision", "load_bits"]

_FULL_PRECISION = 24  # significand bits of float32


def format_of(site: Site) -> Format | None:
    """Return the format of a site's value; None where it has none that is known."""
    try:
        return get(site.dtype)
    except UnknownFormatError:
        return None


def is_low_precision(site: Site) -> bool:
    """Whether the value lies in a floating format with fewer bits than float32."""
    found = format_of(site)
    if found is None or found.kind == "integer":
        return False
    return found.precision < _FULL_PRECISION


def headroom_bits(site: Site, summary: Summary | None) -> float | None:
    """Return log2(format.max / amax) in bits; None where it cannot be computed.

    A value without a non-zero finite element has infinite headroom.
    """
    found = format_of(site)
    if found is None or summary is None or summary.amax is None:
        return None
    if summary.amax == 0:
        return math.inf
    return math.log2(found.max) - math.log2(summary.amax)


def load_bits(site: Site, summary: Summary | None) -> float:
    """Return minus the headroom, for ranking; -Inf where it is not known."""
    if summary is not None and summary.is_finite is False:
        return math.inf
    bits = headroom_bits(site, summary)
    return -math.inf if bits is None else -bits
