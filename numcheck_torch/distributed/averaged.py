# SPDX-License-Identifier: Apache-2.0
"""Gradients that are finite on every rank, and are not once the ranks average them.

Each rank can only repeat its own part of a step. What lies between that and the
gradient it was left with is the collective, with whatever the user hung on it, such as
a compression to float16.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import torch

from numcheck.diagnose.finding import Evidence
from numcheck_torch.dtypes import format_name
from numcheck_torch.sentinel import local
from numcheck_torch.statistics import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numcheck.diagnose.finding import Finding
    from numcheck.record.site import Site
    from numcheck.record.trace import Trace
    from numcheck_torch.replay import Outcomes

__all__ = ["averaged", "breaks_when_cast", "hook_of", "with_ranks_told"]

_CAST: Final = "aten._to_copy.default"
_AVERAGE: Final = "c10d.allreduce_.default"
_COMPRESSED: Final = {"bf16_compress": torch.bfloat16, "fp16_compress": torch.float16}
"""What PyTorch's own hooks cast to; their names begin like this."""


def hook_of(wrappers: Iterable[Any]) -> str:
    """Return the name of the user's own way to average gradients; empty for none."""
    for wrapper in wrappers:
        for hook, _ in getattr(wrapper, "_comm_hooks", ()):
            return str(getattr(hook, "__name__", type(hook).__name__))
    return ""


def averaged(
    trace: Trace,
    outcomes: Outcomes,
    left: Mapping[str, torch.Tensor],
    hook: str,
    dtypes: Mapping[str, torch.dtype],
) -> Trace | None:
    """Return a rank's own step with the averaging after it; None where that is fine.

    Args:
        trace: the rank's part of the step, repeated.
        outcomes: what that gave.
        left: what the ranks left in ``.grad``, by parameter.
        hook: see `hook_of`.
        dtypes: what a sharded model casts gradients to before they are averaged.
    """
    sites = list(trace.sites)
    (place, held), *_ = trace.summaries.items()
    held = dict(held)
    compressed = _compressed(hook)

    def add(site: Site, value: torch.Tensor) -> int:
        held[len(sites)] = summarize(value)
        dtype = format_name(value.dtype)
        sites.append(dataclasses.replace(site, index=len(sites), dtype=dtype))
        return len(sites) - 1

    for own in [s for s in sites if s.kind == "kept" and s.role == "gradient"]:
        name = own.op.removeprefix("gradient:")
        before, after = outcomes.gradients.get(name), left.get(name)
        if before is None or after is None or not _breaks(before, after):
            continue
        parents, low = own.parents, dtypes.get(name, compressed)
        step = dataclasses.replace(own, kind="operator", role="operator")
        if low is not None:
            cast = dataclasses.replace(
                step, op=_CAST, family="cast", effect="cast", parents=parents
            )
            parents = (add(cast, before.to(low)),)
        met = dataclasses.replace(
            step, op=_AVERAGE, family="collective", effect="compute", parents=parents
        )
        made = add(met, after)
        add(dataclasses.replace(own, parents=(made,)), after)
    if len(sites) == len(trace.sites):
        return None
    summaries = {**trace.summaries, place: held}
    return dataclasses.replace(trace, sites=tuple(sites), summaries=summaries)


def breaks_when_cast(
    outcomes: Outcomes, hook: str, dtypes: Mapping[str, torch.dtype]
) -> bool:
    """Whether a rank's own gradients are lost in the cast before the averaging.

    Args:
        outcomes: what its part of the step gave.
        hook: see `hook_of`.
        dtypes: see `averaged`.
    """
    for name, gradient in outcomes.gradients.items():
        low = dtypes.get(name, _compressed(hook))
        if low is not None and _breaks(gradient, local(gradient).to(low)):
            return True
    return False


def with_ranks_told(finding: Finding, hook: str) -> Finding:
    """Return a finding with what the ranks had before they averaged."""
    key = "averaged_by_hook" if hook else "averaged"
    told = Evidence(key, {"hook": hook} if hook else {})
    return dataclasses.replace(finding, evidence=(*finding.evidence, told))


def _compressed(hook: str) -> torch.dtype | None:
    return next((d for n, d in _COMPRESSED.items() if hook.startswith(n)), None)


def _breaks(before: torch.Tensor, after: torch.Tensor) -> bool:
    is_bad = [summarize(local(t)).is_finite is False for t in (before, after)]
    return is_bad == [False, True]
