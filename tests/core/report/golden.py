# SPDX-License-Identifier: Apache-2.0
"""Rendered output that was looked at once and must not change unseen.

With NUMCHECK_UPDATE_GOLDEN=1 the files are written instead of compared.
"""

from __future__ import annotations

import os
from pathlib import Path

import numcheck

FOLDER = Path(__file__).parents[2] / "golden" / "report"


def assert_golden(name: str, rendered: str) -> None:
    """Compares with a kept file, the version apart."""
    rendered = rendered.replace(numcheck.__version__, "VERSION")
    kept = FOLDER / name
    if os.environ.get("NUMCHECK_UPDATE_GOLDEN"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(rendered, "utf-8")
    assert rendered == kept.read_text("utf-8")
