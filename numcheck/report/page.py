# SPDX-License-Identifier: Apache-2.0
"""The report as one self-contained HTML page, in both languages at once."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import jinja2

import numcheck
from numcheck.report.colour import NAN_CODE, STOPS, UNMEASURED_CODE, colour_of_code
from numcheck.report.departed import departed
from numcheck.report.messages import LANGUAGES, catalogue, language, text
from numcheck.report.page_cards import page_card
from numcheck.report.page_data import page_data
from numcheck.report.places import Places
from numcheck.report.printable import printable
from numcheck.report.triage import triage_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numcheck.report.content import Content
    from numcheck.report.page_cards import Pair

__all__ = ["page"]

_SCRIPTS: Final = ("draw.js", "map.js", "histogram.js", "curves.js", "page.js")


def page(
    content: Content,
    lang: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """Return the page. It needs no network and no other file.

    Args:
        content: findings and what is known around them.
        lang: language it opens in; the reader can switch.
        progress: called while the trace is read, with steps done and steps in all.
    """
    script = "\n".join(_file(name) for name in _SCRIPTS)
    sites = content.trace.sites if content.trace else ()
    places = Places(content.trace)
    ranks = len(content.trace.ranks) if content.trace else 1
    data = page_data(content, places, progress) | {"texts": _texts("page.js")}
    coverage = content.coverage
    return _template().render(
        lang=language(lang),
        both_texts=_both_texts,
        about=_about(content),
        cards=[page_card(f, places, ranks) for f in content.findings],
        experiments=[_experiment(e) for e in content.experiments],
        triage=triage_rows(content),
        departures=departed(content.trace, content.departures)
        if content.trace and content.departures
        else [],
        seen=_pairs(coverage.seen),
        unseen=_pairs(coverage.unseen),
        data=_script_safe(data),
        has_map=bool(data["rows"]),
        has_curves=bool(data["curves"]),
        left_out=data["left_out"],
        steps_in_column=data["steps_in_column"],
        phases=list(dict.fromkeys(sites[i].phase for i in data["rows"])),
        dtypes=sorted({sites[i].dtype for i in data["rows"]}),
        style=_file("page.css"),
        script=script,
        script_hash=_hash(script),
        version=numcheck.__version__,
    )


def _about(content: Content) -> list[str]:
    """Return where the run was made: names and versions, the same in any language."""
    meta = content.trace.meta if content.trace else {}
    framework = str(meta.get("framework", ""))
    known = [
        f"{framework} {meta.get(framework, '')}".strip(),
        *(meta.get(name) for name in ("device", "devices", "python")),
    ]
    versions = meta.get("versions")
    if isinstance(versions, Mapping):
        known += [f"{n} {v}" for n, v in versions.items() if n != framework]
    return [printable(str(value)) for value in known if value]


def _both_texts(key: str, **fields: object) -> Pair:
    english, chinese = (text(f"page.{key}", lang, **fields) for lang in LANGUAGES)
    return english, chinese


def _pairs(sentences: Callable[[str], Iterable[str]]) -> list[Pair]:
    return list(zip(sentences("en"), sentences("zh"), strict=True))


def _texts(prefix: str) -> Mapping[str, Mapping[str, str]]:
    """Return the texts that the script says, by language."""
    start = prefix + "."
    return {
        lang: {
            key.removeprefix(start): value
            for key, value in catalogue(lang).items()
            if key.startswith(start)
        }
        for lang in LANGUAGES
    }


def _experiment(experiment: Any) -> dict[str, Any]:  # noqa: ANN401 - an Experiment
    return {
        "name": _both_texts(f"experiment.{experiment.name}"),
        "result": _both_texts(f"result.{experiment.result}"),
        "css": experiment.result,
        "reason": experiment.reason,
        "fields": ", ".join(f"{n} = {v}" for n, v in experiment.fields.items()),
    }


def _script_safe(data: Any) -> str:  # noqa: ANN401 - JSON values
    """Return JSON that cannot end its script block, nor start a comment in it."""
    written = json.dumps(
        data, allow_nan=False, ensure_ascii=True, separators=(",", ":")
    )
    return written.replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(script: str) -> str:
    """Return what the page's policy allows as its only script."""
    digest = hashlib.sha256(script.encode()).digest()
    return base64.b64encode(digest).decode("ascii")


@functools.cache
def _file(name: str) -> str:
    return (files("numcheck.report") / "web" / name).read_text("utf-8")


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "colour_of_code": colour_of_code,
        "legend_codes": [NAN_CODE, NAN_CODE + 1, *(int(4 * b) for b, _ in STOPS), 126],
        "unmeasured": UNMEASURED_CODE,
    }
    return environment.from_string(_file("page.html"))
