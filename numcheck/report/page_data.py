# SPDX-License-Identifier: Apache-2.0
"""The data that the page's script draws, as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numcheck.report.colour import (
    INF_CODE,
    NAN_CODE,
    STOPS,
    UNMEASURED_CODE,
    ZERO_CODE,
)
from numcheck.report.curves import curves
from numcheck.report.distributions import distributions, format_ranges
from numcheck.report.heatmap import Heatmap, heatmap
from numcheck.report.interchange import number_to_json
from numcheck.report.naming import location
from numcheck.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.record.site import Site
    from numcheck.report.content import Content
    from numcheck.report.places import Places

__all__ = ["page_data"]


def page_data(
    content: Content,
    places: Places,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return sites, headroom map, histograms and curves."""
    trace = content.trace
    drawn = heatmap(trace, progress) if trace else Heatmap((), (), 1, "", 0)
    sites = trace.sites if trace else ()
    return {
        "sites": [_site(site) for site in sites],
        "rows": list(drawn.rows),
        "steps": list(drawn.steps),
        "last_step": trace.steps[-1] if trace and trace.steps else 0,
        "steps_in_column": drawn.steps_in_column,
        "cells": drawn.cells,
        "left_out": drawn.left_out,
        "distributions": distributions(trace, content.findings) if trace else {},
        "departures": [
            [index, number_to_json(error)]
            for index, error in sorted((content.departures or {}).items())
            if index < len(sites)
        ],
        "formats": format_ranges(),
        "curves": curves(content.events),
        "origins": [
            {"site": places.origin(f), "step": f.step, "id": f.id}
            for f in content.findings
        ],
        "codes": {
            "nan": NAN_CODE,
            "inf": INF_CODE,
            "zero": ZERO_CODE,
            "unmeasured": UNMEASURED_CODE,
        },
        "stops": STOPS,
    }


def _site(site: Site) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": printable(site.name),
        "op": printable(site.op),
        "phase": site.phase,
        "dtype": printable(site.dtype),
    }
    if site.scope:
        row["scope"] = printable(site.scope)
    if site.source is not None:
        row["place"] = printable(location(site.source))
    return row
