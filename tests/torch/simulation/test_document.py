# SPDX-License-Identifier: Apache-2.0
"""The documentation's example of a training in other formats runs and holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGES = [Path(__file__).parents[3] / "docs" / n / "simulate.md" for n in ("en", "zh")]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def example(page: Path) -> str:
    """Returns the only program of a page that trains."""
    (program,) = (b for b in BLOCK.findall(page.read_text("utf-8")) if "AdamW" in b)
    assert isinstance(program, str)
    return program


def test_a_model_trains_in_mxfp8_as_in_float32_and_worse_in_mxfp4() -> None:
    names: dict[str, Any] = {}
    exec(compile(example(PAGES[0]), str(PAGES[0]), "exec"), names)  # noqa: S102 - our own page
    loss = names["found"]
    assert loss["float32"] < 0.4
    assert loss["float32"] < loss["mxfp8"] < 1.1 * loss["float32"]
    assert loss["mxfp4"] > 1.25 * loss["float32"]


def test_both_languages_show_the_same_program() -> None:
    assert example(PAGES[0]) == example(PAGES[1])
