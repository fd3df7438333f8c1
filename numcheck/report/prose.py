# SPDX-License-Identifier: Apache-2.0
"""A finding in words: every sentence that any report says about it."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from numcheck.report.chain import chain_links, is_origin, reading_line
from numcheck.report.figures import bits_text, headroom_bits
from numcheck.report.messages import has_text, language, text, told
from numcheck.report.naming import chain_name, for_people, held, source_path
from numcheck.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.diagnose.finding import Advice, Evidence, Field, Finding
    from numcheck.diagnose.incident import Experiment
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site, SourceLine

__all__ = ["ChainLink", "Prose", "evidence_text", "experiment_text"]

_HARM_SHOWN: Final = 4
_LOW_BITS: Final = 2.0
_FORMATS: Final = ("bfloat16", "float32", "float64")


@dataclasses.dataclass(frozen=True, slots=True)
class ChainLink:
    """One link of the chain as it is shown.

    Attributes:
        text: name and headroom, or how many links were left out.
        is_bad: whether it holds NaN or Inf.
        is_low: whether less than two bits of headroom are left.
    """

    text: str
    is_bad: bool = False
    is_low: bool = False


class Prose:
    """The sentences about one finding in one language."""

    def __init__(
        self, finding: Finding, lang: str | None = None, *, ranks: int = 1
    ) -> None:
        """Speak of `finding`; with several ranks, also say which one failed first."""
        self.finding = finding
        self.lang = language(lang)
        self._ranks = ranks

    def say(self, key: str, **fields: object) -> str:
        """Return a text in the report's language."""
        return text(key, self.lang, **fields)

    def title(self) -> str:
        """Return what broke, as a sentence that can stand alone."""
        fields = for_people(self.finding.fields, self.lang)
        return self.say(f"rule.{self.finding.id}.title", **fields)

    def headline(self) -> tuple[str, str]:
        """Return ``level[id]: `` and the title."""
        found = self.finding
        level = self.say(f"report.level.{found.severity}")
        return self.say("report.headline", level=level, id=found.id), self.title()

    def label(self, name: str) -> str:
        """Return ``label: `` with the blank or colon of the language."""
        return self.say("report.labelled", label=self.say(f"report.label.{name}"))

    def where(self) -> str:
        """Return the module path, else the operator."""
        site = self.finding.site
        return printable(site.scope or site.op)

    def where_read(self) -> str:
        """Return where it is, and the line that read it where none made it."""
        source = reading_line(self.finding)
        if source is None:
            return self.where()
        place = self._line(source)
        return self.say("report.read_at", name=self.where(), place=place)

    def place(self) -> str:
        """Return the user's line and function; empty where it is not known."""
        source = self.finding.site.source
        return "" if source is None else self._line(source)

    def _line(self, source: SourceLine) -> str:
        place = f"{source_path(source.file)}:{source.line}"
        if not source.function:
            return printable(place)
        return self.say("report.location", place=place, function=source.function)

    def aside(self) -> str:
        """Return module, operator, loop iteration and rank, in brackets."""
        found, site = self.finding, self.finding.site
        parts = [site.op] if site.op else []
        if site.source is not None and site.scope:
            parts.insert(0, site.scope)
        if site.source is None and not site.scope:
            parts = []
        if site.iteration:
            counters = ".".join(map(str, site.iteration))
            parts.append(self.say("report.attempt", iteration=counters))
        where = ((k, v) for k, v in site.detail if k in ("lane", "shard"))
        parts += [self.say(f"report.{name}", **{name: n}) for name, n in where]
        if found.rank or self._ranks > 1:
            parts.append(self.say("report.rank", rank=found.rank))
        listed = self.say("report.list_separator").join(map(printable, parts))
        return self.say("report.aside", text=listed) if listed else ""

    def mark(self) -> str:
        """Return what first happened at the origin, when and in which phase."""
        found = self.finding
        key = {
            "+inf": "report.mark_inf.positive",
            "-inf": "report.mark_inf.negative",
        }.get(found.kind, f"report.mark.{found.kind}")
        phase = self.say(f"report.phase.{found.phase}")
        return self.say(key, step=found.step, phase=phase)

    def chain(self) -> list[ChainLink]:
        """Return the chain from upstream of the origin to the harm."""
        links: list[ChainLink] = []
        for link in chain_links(self.finding):
            if isinstance(link, int):
                omitted = self.say("report.chain.omitted", n=link)
                links.append(ChainLink(f"… {omitted} …"))
            else:
                links.append(self._link(*link))
        return links

    def _link(self, site: Site, summary: Summary | None) -> ChainLink:
        bits = headroom_bits(summary, site.dtype)
        bad = held(summary)
        value = bad or ("" if bits is None else bits_text(bits))
        if bits == math.inf:  # a sign for "infinite" would tell the opposite
            value = self.say("report.chain.zeros")
        words = f"{printable(chain_name(site))} {value}".strip()
        if is_origin(self.finding, site):
            words += self.say("report.chain.born")
        low = bits is not None and bits < _LOW_BITS
        return ChainLink(words, is_bad=bad is not None, is_low=low)

    def notes(self) -> Iterator[str]:
        """Yield what the replay showed, and what was counted instead of listed."""
        found = self.finding
        if found.reproduced is not None:
            name = "reproduced" if found.reproduced else "not_reproduced"
            yield self.say(f"report.notes.{name}")
        if found.masked:
            yield self.say("report.notes.masked", n=len(found.masked))
        if found.count > 1:
            yield self.say("report.notes.count", n=found.count)

    def evidence(self) -> Iterator[tuple[bool, str]]:
        """Yield (measured rather than inferred, sentence) of each piece of evidence.

        A count that another piece gives together with its place is left out.
        """
        placed = [_counts(p) for p in self.finding.evidence if p.key == "data_N011"]
        for piece in self.finding.evidence:
            if piece.key == "bad_elements" and _counts(piece) in placed:
                continue
            yield piece.seen, evidence_text(piece, self.lang)

    def harm(self) -> str:
        """Return the kept values that the fault reached."""
        harmed = self.finding.harm
        separator = self.say("report.list_separator")
        names = separator.join(printable(site.op) for site in harmed[:_HARM_SHOWN])
        if len(harmed) <= _HARM_SHOWN:
            return names
        n = len(harmed) - _HARM_SHOWN
        return self.say("report.notes.harm_more", names=names, n=n)

    def cause(self) -> str:
        """Return class, certainty and reason of the cause, or that it is open."""
        cause = self.finding.cause
        if cause is None:
            return self.say("report.cause_line.unknown")
        key = f"rule.{cause.rule}.cause"
        if not has_text(key):
            key = f"rule.{cause.rule}.title"
        return self.say(
            "report.cause_line.known",
            rule=cause.rule,
            cls=self.say(f"report.cause.{cause.cls}"),
            certainty=self.say(f"report.certainty.{cause.certainty}"),
            text=self.say(key, **for_people(cause.fields, self.lang)),
        )

    def same_cause(self) -> str:
        """Return that the cause is that of the finding before."""
        cause = self.finding.cause
        rule = self.finding.id if cause is None else cause.rule
        return self.say("report.cause_line.same", rule=rule)

    def help(self) -> Iterator[str]:
        """Yield the changes to make, best first, then where to read more."""
        for advice in self.finding.help:
            yield self._advice(advice)
        cause = self.finding.cause
        known = self.finding.id
        if cause is None or cause.rule == known:
            yield self.say("report.help_line.explain", rule=known)
        else:
            yield self.say("report.help_line.explain_both", id=known, rule=cause.rule)

    def _advice(self, advice: Advice) -> str:
        return self.say(
            f"report.help_line.{'tried' if advice.tried else 'untried'}",
            text=self.say(f"advice.{advice.key}", **advice.fields),
            certainty=self.say(f"report.certainty.{advice.certainty}"),
        )


def _counts(piece: Evidence) -> tuple[Field | None, ...]:
    return tuple(piece.fields.get(name) for name in ("nan", "inf", "n"))


def evidence_text(piece: Evidence, lang: str | None = None) -> str:
    """Return one piece of evidence as a sentence."""
    return text(f"evidence.{piece.key}", lang, **for_people(piece.fields, lang))


def experiment_text(experiment: Experiment, lang: str | None = None) -> str:
    """Return what an experiment showed; of a whole step also its largest value."""
    if experiment.result == "not_run":
        return told(experiment.reason, lang)
    from numcheck.diagnose.diagnosis import evidence_of

    sentence = evidence_text(evidence_of(experiment), lang)
    if experiment.name not in _FORMATS or "amax" not in experiment.fields:
        return sentence
    largest = text("page.experiment_largest", lang, amax=experiment.fields["amax"])
    return text("report.sentence_separator", lang).join((sentence, largest))
