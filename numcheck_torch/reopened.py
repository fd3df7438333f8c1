# SPDX-License-Identifier: Apache-2.0
"""A fused attention, opened: which step inside it gives the first NaN or Inf.

PyTorch can run scaled dot product attention as plain products and a softmax. That is
other arithmetic (the fused kernel keeps its scores wider), so what it shows is evidence
beside the finding, not the finding itself.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from torch.nn.attention import SDPBackend, sdpa_kernel

from numcheck.diagnose.finding import Evidence

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView, Trace
    from numcheck_torch.laboratory import TorchLaboratory

__all__ = ["reopened"]


def reopened(finding: Finding, laboratory: TorchLaboratory) -> Finding:
    """Return a finding at a fused attention with what was seen inside.

    Args:
        finding: returned as it is where its origin is another operator.
        laboratory: the step it was found in.
    """
    if finding.site.family != "attention" or finding.step != laboratory.step:
        return finding
    try:
        with sdpa_kernel(SDPBackend.MATH):
            trace = laboratory.replay()
    except Exception:  # noqa: BLE001 - an attempt; the finding itself is at hand
        return finding
    evidence = _told(finding.site, trace, laboratory.step)
    return dataclasses.replace(finding, evidence=(*finding.evidence, evidence))


def _told(fused: Site, trace: Trace, step: int) -> Evidence:
    inner = _first_birth(fused, trace.at(step))
    if inner is None:
        return Evidence("attention_opened_is_finite")
    return Evidence("attention_opened", {"op": inner.op})


def _first_birth(fused: Site, view: StepView) -> Site | None:
    """Return the first operator at a place that makes bad values of finite ones."""
    bad = {s.index for s in view.trace.sites if _is_bad(s, view)}
    return next(
        (
            site
            for site in view.trace.sites
            if site.index in bad
            and site.kind == "operator"
            and (site.scope, site.phase) == (fused.scope, fused.phase)
            and (fused.source is None or site.source == fused.source)
            and not bad.intersection(site.parents)
        ),
        None,
    )


def _is_bad(site: Site, view: StepView) -> bool:
    held = view.summary(site)
    return held is not None and held.is_finite is False
