# SPDX-License-Identifier: Apache-2.0
"""Whether the batch is out of scale: single values far out, or all of it."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from numcheck.diagnose.health import is_floating

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["Scale", "largest_input"]

_SIZEABLE = 50.0
"""Standardised features stay below 10, and exp overflows float32 at 88."""
_LARGE = 1e3  # of standardised features none is ever this large
_FAR = 1e3
"""Times the root mean square of the other elements. A heavy-tailed feature reaches
tens; sentinels and unit errors reach thousands."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """How large an input is.

    Attributes:
        site: the input.
        amax: its largest magnitude.
        rest: root mean square of its elements without the largest one.
        is_off_centre: whether its mean is no smaller than half its spread, as of
            pixels, prices and times that nobody centred.
    """

    site: Site
    amax: float
    rest: float
    is_off_centre: bool = False

    @property
    def has_outlier(self) -> bool:
        """Whether its largest element stands far out from all others."""
        return self.amax > _FAR * max(self.rest, math.ulp(0.0))

    @property
    def is_large(self) -> bool:
        """Whether its largest element is far beyond what standardised data hold."""
        return self.amax >= _LARGE

    @property
    def is_unnormalised(self) -> bool:
        """Whether it was never standardised: far too large, or large and one-sided."""
        return self.is_large or (self.amax >= _SIZEABLE and self.is_off_centre)


def largest_input(view: StepView, sources: Iterable[Site]) -> Scale | None:
    """Return the source of numbers with the largest magnitude; None without one.

    Integers count where they are converted (pixels), not where they point (tokens).
    """
    found = [
        Scale(
            site,
            summary.amax,
            _without_largest(summary, summary.amax),
            _is_off_centre(summary),
        )
        for site in sources
        if is_floating(site.dtype) or _is_converted(view, site)
        if (summary := view.summary(site)) is not None and summary.amax
    ]
    return max(found, key=lambda s: s.amax, default=None)


def _is_converted(view: StepView, source: Site) -> bool:
    """Whether integers become floating-point numbers as they are."""
    front = [source.index]
    for index in front:
        for child in view.trace.children.get(index, ()):
            site = view.trace.sites[child]
            if site.effect == "cast" and is_floating(site.dtype):
                return True
            if site.effect == "move" and site.family in ("", "cast", "select"):
                front.append(child)
    return False


def _is_off_centre(summary: Summary) -> bool:
    mean, std = summary.mean, summary.std
    return mean is not None and std is not None and abs(mean) >= std / 2


def _without_largest(summary: Summary, amax: float) -> float:
    """Return the root mean square of all finite elements but the largest.

    Where the largest square hides the others in rounding, an upper bound; where the
    squares were not measured or overflow, the largest itself, so that it is no outlier.
    """
    if summary.total_sq is None or summary.n < 2 or not math.isfinite(summary.total_sq):
        return amax
    noise = summary.total_sq * 2.0**-40
    left = max(summary.total_sq - amax * amax, noise)
    return math.sqrt(left / (summary.n - 1))
