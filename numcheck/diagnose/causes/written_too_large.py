# SPDX-License-Identifier: Apache-2.0
"""A finite number of the program that its own format cannot hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of, is_low_precision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["WrittenTooLarge"]

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:[eE][+]?\d+)?(?![\w.])")


class WrittenTooLarge:
    """A mask of -1e9 is -Inf in float16, before the program even runs."""

    id = "N155"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer where an infinity of the trace is a finite number of the source."""
        if broke.id not in ("N007", "N305", "N306", "N307", "N313"):
            return None
        found = next(_too_large(scene), None)
        if found is None:
            return None
        number, dtype = found
        seen = Evidence("number_too_large", {"number": number, "dtype": dtype})
        advice = ("finite_mask", "float32_here")
        return explain(self.id, "precision", "likely", seen, advice=advice)


def _too_large(scene: Scene) -> Iterator[tuple[float, str]]:
    """Yield the numbers in the lines of written infinities that do not fit."""
    for site in scene.ancestry.sites:
        limit = format_of(site)
        if not site.literals or site.source is None or limit is None:
            continue
        if not is_low_precision(site) or "inf" in site.source.text.lower():
            continue
        for text in _NUMBER.findall(site.source.text):
            number = float(text)
            if limit.overflows(number):
                yield number, limit.name
