# SPDX-License-Identifier: Apache-2.0
"""The samples, and what numcheck says of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from numcheck.diagnose import diagnose
from numcheck.importing import incidents_of
from numcheck.record.foreign import read_steps

if TYPE_CHECKING:
    from numcheck.diagnose import Finding
    from numcheck.record.site import Site
    from numcheck.record.trace import Trace

SAMPLES = Path(__file__).parent / "samples"


def findings(name: str) -> dict[tuple[int, int], tuple[Finding, ...]]:
    """Return the findings of each step and rank of a sample."""
    incidents = incidents_of(read_steps(SAMPLES / name))
    return {(i.step, i.rank): diagnose(i) for i in incidents}


def step(name: str, number: int = 0, rank: int = 0) -> Trace:
    """Return one step of one rank of a sample."""
    (found,) = (t for t in read_steps(SAMPLES / name) if (number, rank) in t.summaries)
    return found


def only(trace: Trace, op: str, phase: str = "forward") -> Site:
    """Return the one site of an operator in a phase."""
    (found,) = (s for s in trace.sites if s.op == op and s.phase == phase)
    return found


def flow(trace: Trace) -> set[tuple[str, str]]:
    """Return the forward edges between calls, as (maker, reader) by dump name."""
    edges = set()
    for site in trace.sites:
        if site.kind == "operator" and site.phase == "forward":
            for parent in site.parents:
                edges.add((called(trace.sites[parent]), called(site)))
    return edges


def called(site: Site) -> str:
    """Return the call that made a site, or the operator where none is known."""
    return str(dict(site.detail).get("dump_name", site.op))
