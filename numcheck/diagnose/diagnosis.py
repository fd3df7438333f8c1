# SPDX-License-Identifier: Apache-2.0
"""From a step that went wrong to findings, without running anything."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.diagnose.aside import lost_aside
from numcheck.diagnose.batch import with_batch
from numcheck.diagnose.causes import why
from numcheck.diagnose.causes.base import tried
from numcheck.diagnose.causes.hardware import suspected_race
from numcheck.diagnose.causes.silent import why_silent
from numcheck.diagnose.chain import chain
from numcheck.diagnose.device import device_notes, hidden_faults
from numcheck.diagnose.dynamics import trends
from numcheck.diagnose.dynamics.health import health_notes
from numcheck.diagnose.finding import Evidence, Fact, Finding
from numcheck.diagnose.harm import harm_rank
from numcheck.diagnose.incident import Incident
from numcheck.diagnose.load import format_of
from numcheck.diagnose.provenance import Origin, trace_back
from numcheck.diagnose.rules import what_broke
from numcheck.diagnose.scene import Scene
from numcheck.diagnose.silent import departed
from numcheck.diagnose.silent.smothered import smothered
from numcheck.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.causes import Explanation
    from numcheck.diagnose.device import HiddenScene
    from numcheck.diagnose.finding import Advice, FaultKind, Field
    from numcheck.diagnose.incident import Experiment
    from numcheck.diagnose.provenance import Provenance
    from numcheck.diagnose.silent import Departed
    from numcheck.record.site import Site

__all__ = ["diagnose", "evidence_of"]

_MOST_FINDINGS = 5
_MOST_FACTS = 4


def diagnose(incident: Incident) -> tuple[Finding, ...]:
    """Return what broke in a step and why, the most important finding first.

    Args:
        incident: the recorded step, with the experiments that were run. Nothing is
            run here.

    Raises:
        ArgumentTypeError: `incident` is something else.

    Returns:
        Findings; empty when no harm was done.

    Example:
        >>> from numcheck.diagnose import Incident
        >>> from numcheck.measure import Summary
        >>> from numcheck.record import Site, TraceBuilder
        >>> step = TraceBuilder(0)
        >>> x = Site(0, "input:x", "data", kind="source", role="input")
        >>> loss = Site(0, "loss", "forward", "kept", "loss", parents=(1,))
        >>> log = Site(0, "log", "forward", family="log", parents=(0,))
        >>> has_zero = Summary(n=2, nan=0, pos_inf=0, neg_inf=0, zero=1)
        >>> has_inf = Summary(n=2, nan=0, pos_inf=0, neg_inf=1, zero=0)
        >>> at = step.add(x, has_zero), step.add(log, has_inf), step.add(loss, has_inf)
        >>> [(f.id, f.site.op, f.kind) for f in diagnose(Incident(step.build(), 0))]
        [('N301', 'log', '-inf')]
    """
    given: object = incident
    if not isinstance(given, Incident):
        raise ArgumentTypeError(
            f"incident must be a numcheck.diagnose.Incident, got {type(given).__name__}"
            "; a run folder is diagnosed by `numcheck report FOLDER`"
        )
    searches = bool(incident.settings.get("dynamic_loss_scale"))
    provenance = trace_back(incident.view, searches_scale=searches)
    found = [
        _of_origin(Scene(incident, provenance, origin))
        for origin in provenance.origins[:_MOST_FINDINGS]
    ]
    # An audit looks at a step that was healthy as the user ran it. What breaks only
    # operator by operator is latent, unless the program runs like that itself.
    latent: list[Finding] = []
    if incident.departures is not None and not incident.reproduced:
        latent = [dataclasses.replace(f, severity="note") for f in found]
        found = []
    if not found:
        found = _silent(incident, provenance, searches_scale=searches)
    beside = [Scene(incident, provenance, o) for o in lost_aside(provenance)]
    found += [_of_aside(scene) for scene in beside[:_MOST_FINDINGS]]
    only_flag = incident.settings.get("overflow_flag") is True
    if not (found or only_flag or incident.departures is not None):
        found = _unreproduced(incident) if incident.reproduced is False else []
    noted = device_notes(incident, found=bool(found))
    if incident.departures is not None:
        noted = (*noted, *health_notes(incident))
    return with_batch((*found, *latent, *noted), incident.batch)


def _silent(
    incident: Incident, provenance: Provenance, *, searches_scale: bool
) -> list[Finding]:
    """Return what went wrong without a NaN or Inf in what training keeps."""
    hidden = hidden_faults(incident, provenance)
    told = [_of_hidden(scene) for scene in hidden[:_MOST_FINDINGS]]
    if any(scene.is_reported for scene in hidden):
        return told
    if incident.departures is not None:
        lost = departed(provenance, incident.departures, searches_scale=searches_scale)
        if lost:
            return [
                _of_departed(incident, provenance, d) for d in lost[:_MOST_FINDINGS]
            ]
    wiped = [Scene(incident, provenance, o) for o in smothered(provenance)]
    if wiped:
        return [_of_smothered(scene) for scene in wiped[:_MOST_FINDINGS]]
    return told or list(trends(incident))


def _unreproduced(incident: Incident) -> list[Finding]:
    """Return that the step failed and its replay did not, at what it handed back."""
    kept = sorted(incident.view.kept(), key=harm_rank)
    suspect = suspected_race(incident)
    return [
        Finding(
            id="N902",
            severity="error",
            site=site,
            step=incident.step,
            kind="nan",
            rank=incident.rank,
            fields={"op": site.op},
            evidence=_ran(incident, site),
            cause=None if suspect is None else suspect.cause,
            help=() if suspect is None else suspect.help,
            reproduced=False,
        )
        for site in kept[:1]
    ]


def _of_hidden(scene: HiddenScene) -> Finding:
    finding = _of_origin(scene)
    view, harm = scene.provenance.view, scene.origin.harm
    lacks_bfloat16 = scene.incident.settings.get("bfloat16_supported") is False
    return dataclasses.replace(
        finding,
        chain=chain(view, scene.site, harm[0], scene.reached.__contains__),
        help=tuple(
            h for h in finding.help if h.key != "bfloat16" or not lacks_bfloat16
        ),
        id="N602" if scene.by == "status" else "N601",
        severity="error" if scene.is_reported else "warning",
        kind="departure",
        evidence=(*scene.evidence(finding.id), *finding.evidence),
    )


def _of_smothered(scene: Scene) -> Finding:
    finding = _of_origin(scene)
    seen = Evidence("smothered", {"gradients": len(finding.harm)})
    evidence = (*finding.evidence, seen)
    others = tuple(m for m in finding.masked if m.index != finding.site.index)
    return dataclasses.replace(
        finding, severity="warning", evidence=evidence, masked=others
    )


def _of_aside(scene: Scene) -> Finding:
    finding = _of_origin(scene)
    evidence = (*finding.evidence, Evidence("lost_aside"))
    return dataclasses.replace(finding, severity="warning", evidence=evidence)


def _of_origin(scene: Scene) -> Finding:
    broke = what_broke(scene)
    explanation = why(scene, broke)
    explained = () if explanation is None else explanation.evidence
    health, bridges = scene.provenance.health, scene.provenance.bridges
    harm = scene.origin.harm
    return Finding(
        id=broke.id,
        severity="error",
        site=scene.site,
        step=scene.incident.step,
        kind=scene.kind,
        rank=scene.incident.rank,
        fields=_fields(scene, broke.fields),
        facts=_facts(scene),
        chain=chain(
            scene.provenance.view,
            scene.site,
            harm[0] if harm else None,
            lambda index: health.is_bad(index) or index in bridges,
        ),
        harm=harm,
        evidence=(*broke.evidence, *_ran(scene.incident, scene.site), *explained),
        cause=None if explanation is None else explanation.cause,
        help=_help(scene.incident, explanation),
        reproduced=scene.incident.reproduced,
        masked=scene.provenance.masked,
    )


def _help(incident: Incident, why: Explanation | None) -> tuple[Advice, ...]:
    """Return what to change; clipping leads where the update was healthy with it."""
    steps = () if why is None else why.help
    if incident.went("with_clipping") != "healthy":
        return steps
    clip = tried("clip_gradients")
    return (clip, *(step for step in steps if step.key != clip.key))


def _of_departed(incident: Incident, provenance: Provenance, lost: Departed) -> Finding:
    scene = Scene(incident, provenance, Origin(lost.site, "birth", lost.harm))
    explanation: Explanation
    is_gradient = lost.site.phase == "backward"
    ids: dict[FaultKind, str] = {
        "underflow": "N201" if is_gradient else "N202",
        "stagnation": "N401",
        "saturation": "N108",
        "departure": "N402",
    }
    id_, fields = ids.get(lost.kind, ""), {}
    if not id_:
        broke = what_broke(scene)
        id_, fields = broke.id, dict(broke.fields)
    explanation = why_silent(id_, lost.harm)
    departures = incident.departures or {}
    seen = Evidence("departs", {"error": departures.get(lost.harm[0].index, 0.0)})
    return Finding(
        id=id_,
        # Cutting off may be meant, as it is where weights are quantised.
        severity="warning" if lost.kind == "saturation" else "error",
        site=lost.site,
        step=incident.step,
        kind=lost.kind,
        rank=incident.rank,
        fields=_fields(scene, fields),
        facts=_facts(scene),
        chain=chain(
            provenance.view, lost.site, lost.harm[0], lost.on_the_way.__contains__
        ),
        harm=lost.harm,
        evidence=(*lost.evidence, seen, *explanation.evidence),
        cause=explanation.cause,
        help=explanation.help,
        reproduced=incident.reproduced,
    )


def _fields(scene: Scene, extra: Mapping[str, Field]) -> dict[str, Field]:
    """Return the fields every title may use, and the rule's own."""
    site, limit = scene.site, format_of(scene.site)
    return {
        "op": site.op,
        "scope": site.scope,
        "dtype": site.dtype,
        "max": "" if limit is None else limit.max,
        "kind": scene.kind,
        **extra,
    }


def _given_name(scene: Scene, site: Site) -> str:
    """Return what the program was given where an operand is only moved or cast of it.

    A weight that was transposed and cast is still that weight to its reader, and a
    detached or viewed result still that of the operator that computed it.
    """
    view, at, made = scene.provenance.view, site, site
    while at.kind == "operator" and at.effect in ("move", "cast"):
        if len(set(at.parents)) != 1:
            return made.name
        is_plain = at is made and (at.effect, at.family) == ("move", "")
        at = view.trace.sites[at.parents[0]]
        made = at if is_plain and at.kind == "operator" else made
    return at.op if at.kind == "source" and at.role != "constant" else made.name


def _facts(scene: Scene) -> tuple[Fact, ...]:
    """Return what the origin read and gave, as rows of a table."""
    rows = [
        Fact("input", _given_name(scene, o.site), o.site.dtype, o.summary)
        for o in scene.operands
        if o.site is not None and o.summary is not None
    ][:_MOST_FACTS]
    if scene.summary is not None:
        rows.append(Fact("output", scene.site.name, scene.site.dtype, scene.summary))
    return tuple(rows)


def _ran(incident: Incident, site: Site) -> tuple[Evidence, ...]:
    """Return one piece of evidence for each experiment that was asked for.

    One with another operator than that of `site` tells nothing about it.
    """
    return tuple(
        evidence_of(e)
        for e in incident.experiments.values()
        if e.fields.get("site", site.index) == site.index
    )


def evidence_of(experiment: Experiment) -> Evidence:
    """Return what an experiment showed, or why it was not run."""
    together = "_together" if experiment.fields.get("together") else ""
    key = f"{experiment.name}{together}_{experiment.result}"
    if experiment.result == "not_run":
        return Evidence("not_run", {"name": experiment.name, "why": experiment.reason})
    return Evidence(key, experiment.fields)
