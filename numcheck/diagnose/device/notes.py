# SPDX-License-Identifier: Apache-2.0
"""What is noteworthy about the device, whether or not the step failed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.device.hidden import is_flagged, is_saturated
from numcheck.diagnose.finding import Advice, Evidence, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.diagnose.finding import Field, Severity
    from numcheck.diagnose.incident import Incident
    from numcheck.record.site import Site

__all__ = ["device_notes"]

_HF32: Final = {"conv": "hf32_conv", "matmul": "hf32_matmul"}
_ADVICE: Final = {
    "chip_saturates_only": "leave_mode_alone",
    "chip_never_saturates": "leave_mode_alone",
    "disabled_without_force": "inf_nan_mode",
    "saturation_by_choice": "inf_nan_mode",
}
"""What to do, by what the adapter says is wrong."""


def device_notes(incident: Incident, *, found: bool) -> tuple[Finding, ...]:
    """Return findings about the device that come beside those of the step.

    Args:
        incident: the step.
        found: whether the step itself has a finding.
    """
    notes = [*_mode(incident), *_flag(incident, found=found)]
    notes += _half_precision(incident) if found else _masks(incident)
    return tuple(notes)


def _mode(incident: Incident) -> Iterator[Finding]:
    """Say where environment and chip contradict each other."""
    wrong = _text(incident, "mode_contradiction")
    site = _first(incident)
    if wrong not in _ADVICE or site is None:
        return
    seen = Evidence(wrong, {"chip": _text(incident, "chip")})
    fields: dict[str, Field] = {
        "mode": _text(incident, "overflow_mode"),
        "chip": _text(incident, "chip"),
    }
    yield _finding(incident, "N607", "warning", site, fields, seen, _ADVICE[wrong])


def _flag(incident: Incident, *, found: bool) -> Iterator[Finding]:
    """Say where the overflow flag speaks of something harmless."""
    view = incident.view
    flagged = [s for s in view.trace.sites if is_flagged(s)]
    for site in flagged:
        if "padded_operand" not in dict(site.detail):
            continue
        if not is_saturated(site, view.summary(site)):
            seen = Evidence("flag_from_padding", {"op": site.op})
            yield _finding(incident, "N606", "note", site, {}, seen, "plain_layout")
            return
    kept = _first(incident)
    if incident.settings.get("overflow_flag") is not True or found or flagged:
        return
    if kept is not None:
        others = incident.settings.get("flag_readers", 0)
        seen = Evidence("flag_without_operator", {"others": int(others)})
        yield _finding(incident, "N603", "note", kept, {}, seen, "clear_flag")


def _masks(incident: Incident) -> Iterator[Finding]:
    """Say where a fused attention has rows that see nothing, and gave numbers."""
    for site in incident.trace.sites:
        facts = dict(site.detail)
        if "mask_hidden_rows" not in facts or site.phase == "backward":
            continue
        rows: dict[str, Field] = {
            "rows": facts["mask_hidden_rows"],
            "of": facts.get("mask_rows", facts["mask_hidden_rows"]),
        }
        seen = [Evidence("mask_hidden_rows", rows)]
        if "mask_upside_down" in facts:
            seen.insert(0, Evidence("mask_upside_down", {"value": 1.0}))
        note = _finding(incident, "N609", "note", site, {}, seen[0], "npu_mask")
        yield dataclasses.replace(note, evidence=tuple(seen))
        return


def _half_precision(incident: Incident) -> Iterator[Finding]:
    """Say where float32 operators run in fewer bits than float32."""
    for family, setting in _HF32.items():
        if incident.settings.get(setting) is not True:
            continue
        for site in incident.trace.sites:
            if site.family == family and site.dtype == "float32":
                seen = Evidence("hf32_on", {"switch": f"torch.npu.{family}.allow_hf32"})
                yield _finding(incident, "N608", "note", site, {}, seen, "hf32_off")
                break


def _first(incident: Incident) -> Site | None:
    """Return the site that stands for the step as a whole: what it is kept for."""
    kept = incident.view.kept()
    return next(iter(kept or incident.trace.sites), None)


def _text(incident: Incident, name: str) -> str:
    return str(incident.settings.get(name, ""))


def _finding(
    incident: Incident,
    rule: str,
    severity: Severity,
    site: Site,
    fields: dict[str, Field],
    seen: Evidence,
    advice: str,
) -> Finding:
    named: dict[str, Field] = {"op": site.op, "dtype": site.dtype, "scope": site.scope}
    return Finding(
        id=rule,
        severity=severity,
        site=site,
        step=incident.step,
        kind="departure",
        rank=incident.rank,
        fields={**named, **fields},
        evidence=(seen,),
        help=(Advice(advice, "likely"),),
    )
