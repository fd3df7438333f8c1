# SPDX-License-Identifier: Apache-2.0
"""Gradients that clipping wiped out, because their norm overflowed.

Each gradient is finite, their length is not: the factor ``max_norm / inf`` is zero, and
so is every gradient. Nothing is NaN, and nothing is learnt.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

from numcheck.diagnose import diagnose
from numcheck.diagnose.incident import Experiment, Incident
from numcheck.diagnose.laboratory import CannotRunError
from numcheck.diagnose.load import format_of
from numcheck.measure.summary import Summary
from numcheck.record.notice import notice
from numcheck.record.site import Site
from numcheck_torch.dtypes import format_name
from numcheck_torch.settings import settings_of_run

if TYPE_CHECKING:
    import torch

    from numcheck.record.trace import StepView, Trace
    from numcheck_torch.laboratory import TorchLaboratory
    from numcheck_torch.monitor import TorchMonitor

__all__ = ["tell_clipped_away"]

_NORM = "gradient norm"


def tell_clipped_away(
    monitor: TorchMonitor, laboratory: TorchLaboratory, total: torch.Tensor
) -> None:
    """Replay the step for its gradients, and deliver that their norm overflowed.

    Args:
        monitor: whose step it is.
        laboratory: runs the step again.
        total: the infinite norm.

    Raises:
        NonFiniteError: as the user's policy says.
    """
    try:
        trace = _with_norm(laboratory.replay(), monitor.step, format_name(total.dtype))
    except CannotRunError as error:
        monitor.observe(note=notice("notice.infinite_norm", why=error))
        return
    settings = settings_of_run(monitor, trace)
    incident = Incident(
        trace,
        monitor.step,
        reproduced=True,
        experiments={"without_clipping": _unclipped(trace.at(monitor.step))},
        settings=settings,
    )
    monitor.keep(incident)
    monitor.deliver(diagnose(incident))


def _unclipped(view: StepView) -> Experiment:
    """Return what the replay says: it gave the gradients as they were before."""
    held = [
        view.summary(site)
        for site in view.kept()
        if site.role == "gradient" and site.op != _NORM
    ]
    known = [s for s in held if s is not None]
    healthy = all(s.is_finite is not False for s in known)
    amax = max((s.amax for s in known if s.amax is not None), default=math.nan)
    result: Literal["healthy", "failed"] = "healthy" if healthy else "failed"
    return Experiment("without_clipping", result, fields={"amax": amax})


def _with_norm(trace: Trace, step: int, dtype: str) -> Trace:
    """Return the trace with the norm over its gradients, as the program took it."""
    view = trace.at(step)
    gradients = [s for s in view.kept() if s.role == "gradient"]
    each_fits = all(_length(view, s) < _largest(s) for s in gradients)
    norm = Site(
        len(trace.sites),
        "aten.linalg_vector_norm.default" if each_fits else "aten._foreach_norm.Scalar",
        "optimizer",
        family="norm",
        dtype=dtype,
        parents=tuple(s.index for s in gradients),
    )
    kept = Site(
        norm.index + 1,
        _NORM,
        "optimizer",
        kind="kept",
        role="gradient",
        effect="move",
        dtype=dtype,
        parents=(norm.index,),
    )
    held = Summary(n=1, nan=0, pos_inf=1, neg_inf=0, low=math.inf, high=math.inf)
    summaries = dict(trace.summaries)
    place = next(key for key in summaries if key[0] == step)
    summaries[place] = {**summaries[place], norm.index: held, kept.index: held}
    sites = (*trace.sites, norm, kept)
    return dataclasses.replace(trace, sites=sites, summaries=summaries)


def _length(view: StepView, gradient: Site) -> float:
    held = view.summary(gradient)
    return math.sqrt(held.total_sq) if held and held.total_sq else 0.0


def _largest(site: Site) -> float:
    limit = format_of(site)
    return math.inf if limit is None else limit.max
