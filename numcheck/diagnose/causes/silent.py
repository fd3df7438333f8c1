# SPDX-License-Identifier: Apache-2.0
"""Why values were lost without a NaN: the float32 shadow has already decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.diagnose.causes.base import Explanation
    from numcheck.record.site import Site

__all__ = ["why_silent"]

_BY_FINDING: dict[str, tuple[str, tuple[str, ...]]] = {
    "N201": ("N251", ("scale_the_loss", "bfloat16")),
    "N202": ("N252", ("float32_here", "rescale")),
    "N108": ("N151", ("scale_to_range", "float32_here")),
    "N402": ("N453", ("float32_here",)),
    "N401": ("N451", ("float32_accumulator", "integer_counter", "float32_master")),
}
_DEFAULT = ("N151", ("float32_here", "bfloat16", "rescale"))


def why_silent(finding: str, harm: Sequence[Site]) -> Explanation:
    """Return the cause of a departure that float32 does not have."""
    rule, advice = _BY_FINDING.get(finding, _DEFAULT)
    if finding == "N401" and harm[0].role == "parameter":
        advice = ("float32_master", "float32_accumulator")
    return explain(rule, "precision", "certain", advice=advice)
