# SPDX-License-Identifier: Apache-2.0
"""Fills the pages of rules from those of `numcheck explain`, at every build.

The pages hold one line, ``<!-- rules -->``, which becomes a section for each id.
Nothing is executed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[1] / "numcheck" / "report" / "explain"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the marker on a page of rules; mkdocs calls this for every page."""
    if "<!-- rules -->" not in markdown:
        return markdown
    language = page.file.src_uri.partition("/")[0]
    sections = [_section(path) for path in sorted((PAGES / language).glob("N*.md"))]
    return markdown.replace("<!-- rules -->", "\n".join(sections))


def _section(path: Path) -> str:
    """Return a rule's page one level down, under an anchor named by its id."""
    title, _, rest = path.read_text("utf-8").partition("\n")
    return f"#{title} {{ #{path.stem} }}\n{rest}"
