# SPDX-License-Identifier: Apache-2.0
"""Fills the gallery of faults from the programs under tests/cases, at every build.

The pages hold one line, ``<!-- gallery -->``, which becomes a section for each case:
its story, the operator at which it breaks, and the way out. Nothing is executed. The
programs tell their stories in English; those in Chinese lie in ``gallery.zh.toml``.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

from numcheck.report.messages import text

CHINESE = Path(__file__).with_name("gallery.zh.toml")
CASES = Path(__file__).parents[1] / "tests" / "cases"
WORDS = {
    "en": ("breaks at", "class", "fix", "program"),
    "zh": ("首个异常算子", "类别", "修复", "程序"),
}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the marker on a gallery page; mkdocs calls this for every page."""
    language = page.file.src_uri.partition("/")[0]
    if "<!-- gallery -->" not in markdown:
        return markdown
    sections = [_section(p, language) for p in sorted(CASES.glob("*/[0-9]*.py"))]
    return markdown.replace("<!-- gallery -->", "\n".join(filter(None, sections)))


def _section(path: Path, language: str) -> str:
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    expected = _expected(tree)
    if expected.get("control"):
        return ""
    story = _story(path.stem, tree, expected, language)
    broke, cls, fix, program = WORDS[language]
    operators = ", ".join(f"`{op}`" for op in _listed(expected["first_bad_op"]))
    kind, cause = expected["cls"], expected["cause"]
    phase = text(f"report.phase.{expected['phase']}", language)
    framework = "PyTorch" if path.parent.name == "torch" else "JAX"
    lines = [
        f"## {story['title']} ({framework})",
        "",
        _labelled(broke, f"{operators}, {phase}", language),
        _labelled(cls, f"{text(f'report.cause.{kind}', language)} ({cause})", language),
        f"- {story['note']}",
        _labelled(fix, story["fix"], language),
        "",
        f'??? note "{program}"',
        "    ```python",
        *(f"    {line}" for line in source.splitlines()),
        "    ```",
        "",
    ]
    return "\n".join(lines)


def _story(
    name: str, tree: ast.Module, expected: dict[str, Any], language: str
) -> dict[str, str]:
    """Return title, note and fix of a case in a language."""
    if language == "zh":
        told: dict[str, str] = tomllib.loads(CHINESE.read_text("utf-8"))[name]
        return told
    title = ast.get_docstring(tree) or name
    return {"title": title, "note": expected["note"], "fix": expected["fix"]}


def _labelled(label: str, said: str, language: str) -> str:
    return f"- {text('report.labelled', language, label=label)}{said}"


def _listed(operators: str | tuple[str, ...]) -> tuple[str, ...]:
    return (operators,) if isinstance(operators, str) else operators


def _expected(tree: ast.Module) -> dict[str, Any]:
    """Read ``EXPECTED = dict(...)`` without running the program."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = [t.id for t in node.targets if isinstance(t, ast.Name)]
            if names == ["EXPECTED"]:
                return {k.arg or "": _value(k.value) for k in node.value.keywords}
    return {}


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:  # an expression such as ("log",) * 6, which no section shows
        return None
