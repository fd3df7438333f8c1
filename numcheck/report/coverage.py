# SPDX-License-Identifier: Apache-2.0
"""What was watched and what was not; "no finding" means nothing without it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from numcheck.report.messages import language, text
from numcheck.report.naming import scalar_kind, scalar_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.text import Text

    from numcheck.diagnose.finding import Evidence, Finding
    from numcheck.diagnose.incident import Setting
    from numcheck.record.trace import Event, Trace

__all__ = ["Coverage", "coverage_lines"]

_PHASES: Final = ("forward", "backward", "optimizer")
_ORDER: Final = ("data", "forward", "recompute", "backward", "optimizer")
_NOT_SCALARS: Final = ("fault", "fault_traceback", "note", "skipped")
_SERIES: Final = ("headroom", "embedding_norm")
_RATIO: Final = "update_ratio"
_MOST_NOTES: Final = 8
_SHOWN_SETTINGS: Final = ("framework", "device", "level", "every", "autocast")


@dataclasses.dataclass(frozen=True, slots=True)
class Coverage:
    """What a report's data can say something about.

    Attributes:
        trace: what was recorded; None when nothing was.
        events: scalars that were read, and faults of numcheck itself.
        settings: what is known of the training and of how it was watched.
        notes: what could not be watched or done.
        shadowed: whether a step was run beside its float32 shadow.
        unread: what of a run folder could not be read, in its reader's words.
        recorded: how many steps were recorded, where not all were read.
    """

    trace: Trace | None
    events: Sequence[Event] = ()
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    notes: Sequence[Evidence] = ()
    shadowed: bool = False
    unread: Sequence[str] = ()
    recorded: int | None = None

    def seen(self, lang: str | None) -> Iterator[str]:
        """Yield what was watched, one sentence each."""
        if self.trace is not None:
            yield from _recorded(self.trace, lang)
        separator = text("report.list_separator", lang)
        yield from _scalars(self.events, lang)
        known = [
            _setting(n, self.settings[n], lang)
            for n in _SHOWN_SETTINGS
            if n in self.settings
        ]
        if known:
            yield separator.join(known)
        if self.shadowed:
            yield text("report.watch.shadow", lang)

    def unseen(self, lang: str | None) -> Iterator[str]:
        """Yield what was not watched, one sentence each."""
        if self.trace is None or not self.trace.sites:
            yield text("report.watch.nothing_recorded", lang)
        else:
            yield from _not_recorded(self.trace, lang)
        if self.recorded is not None and self.trace is not None:
            steps = {"n": len(self.trace.steps), "of": self.recorded}
            yield text("report.watch.thinned", lang, **steps)
        for note in self.notes:
            yield text(f"evidence.{note.key}", lang, **note.fields)
        for problem in self.unread:
            yield text("report.watch.unread", lang, problem=problem)
        yield from _noted(self.events, lang)
        faults = dict.fromkeys(str(e.value) for e in self.events if e.name == "fault")
        for where in faults:
            yield text("report.watch.fault", lang, where=where)
        yield text("report.watch.outside", lang)


def _setting(name: str, value: Setting, lang: str | None) -> str:
    named = text(f"report.setting.{name}", lang)
    return text("report.watch.setting", lang, name=named, value=value)


def _scalars(events: Sequence[Event], lang: str | None) -> Iterator[str]:
    """Yield what was read at every step and at sampled ones, by people's names."""
    names = dict.fromkeys(e.name for e in events if e.name not in _NOT_SCALARS)
    kinds = {name: scalar_kind(name) for name in names}
    series = {kind: list(kinds.values()).count(kind) for kind in _SERIES}
    steady = [n for n, kind in kinds.items() if kind not in (*_SERIES, _RATIO)]
    sampled = [text(f"report.scalar.{p}", lang, n=n) for p, n in series.items() if n]
    sampled += [scalar_name(n, lang) for n, kind in kinds.items() if kind == _RATIO]
    separator = text("report.list_separator", lang)
    if steady:
        named = separator.join(scalar_name(name, lang) for name in steady)
        yield text("report.watch.scalars", lang, names=named)
    if sampled:
        yield text("report.watch.sampled", lang, names=separator.join(sampled))


def _noted(events: Sequence[Event], lang: str | None) -> Iterator[str]:
    """Yield what the adapter could not do, by key or in its words, each once."""
    notes: dict[str, list[int]] = {}
    for event in events:
        if event.name == "note":
            notes.setdefault(str(event.value), []).append(event.step)
    for note, steps in list(notes.items())[:_MOST_NOTES]:
        several = "note_often" if len(steps) > 1 else "note"
        yield text(
            f"report.watch.{several}", lang, note=note, step=min(steps), n=len(steps)
        )
    if len(notes) > _MOST_NOTES:
        yield text("report.chain.omitted", lang, n=len(notes) - _MOST_NOTES)


def _recorded(trace: Trace, lang: str | None) -> Iterator[str]:
    steps = trace.steps
    kept = sum(s.kind == "kept" for s in trace.sites)
    if kept:
        yield text("report.watch.kept", lang, n=kept, steps=len(steps))
    operators = [s for s in trace.sites if s.kind == "operator"]
    if operators and steps:
        phases = dict.fromkeys(s.phase for s in operators)
        # One that a later version recorded comes last.
        known = [phase for phase in _ORDER if phase in phases]
        ordered = [*known, *(phase for phase in phases if phase not in _ORDER)]
        named = (text(f"report.phase.{phase}", lang) for phase in ordered)
        is_single = steps[0] == steps[-1]
        yield text(
            "report.watch.operators_once" if is_single else "report.watch.operators",
            lang,
            n=len(operators),
            phases=text("report.list_separator", lang).join(named),
            steps=len(steps),
            first=steps[0],
            last=steps[-1],
        )
    if len(trace.ranks) > 1:
        yield text("report.watch.ranks", lang, n=len(trace.ranks))


def _not_recorded(trace: Trace, lang: str | None) -> Iterator[str]:
    phases = {s.phase for s in trace.sites if s.kind == "operator"}
    if not phases:
        yield text("report.watch.no_operators", lang)
    for phase in _PHASES:
        if phases and phase not in phases:
            named = text(f"report.phase.{phase}", lang)
            yield text("report.watch.phase", lang, phase=named)
    measured: set[int] = set()
    for summaries in trace.summaries.values():
        measured.update(summaries)
    missing = len(trace.sites) - len(measured)
    if missing:
        yield text("report.watch.unmeasured", lang, n=missing, total=len(trace.sites))
    steps = trace.steps
    if steps and len(steps) < steps[-1] - steps[0] + 1:
        yield text("report.watch.between", lang)


def coverage_lines(
    findings: Sequence[Finding], coverage: Coverage, lang: str | None, width: int
) -> Iterator[Text]:
    """Yield how many findings there are, what was watched and what was not."""
    from rich.text import Text as Line

    lang = language(lang)
    if findings:
        counts = {f"{level}s": _count(findings, level) for level in _LEVELS}
        yield Line(text("report.summary.counts", lang, **counts), "bold")
    else:
        yield Line(text("report.summary.clean", lang), "bold green")
    yield from _section("title_seen", coverage.seen(lang), lang, width)
    yield from _section("title_unseen", coverage.unseen(lang), lang, width)


_LEVELS: Final = ("error", "warning", "note")


def _count(findings: Sequence[Finding], level: str) -> int:
    return sum(f.severity == level for f in findings)


def _section(
    title: str, sentences: Iterable[str], lang: str, width: int
) -> Iterator[Text]:
    from rich.text import Text as Line

    from numcheck.report.styled import hanging, joined

    listed = list(sentences)
    if not listed:
        return
    heading = text(f"report.watch.{title}", lang)
    yield joined((text("report.labelled", lang, label=heading).rstrip(), "bold"))
    for sentence in listed:
        yield from hanging(joined("  - "), "    ", Line(sentence), width)
