# SPDX-License-Identifier: Apache-2.0
"""How findings and traces are shown: terminal, page, JSON, SARIF, other tools.

Every name loads its module on first use; nothing here is imported while training is
healthy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numcheck.report.terminal import card
    from numcheck.report.writing import write_report

_HOME = {
    "card": "numcheck.report.terminal",
    "write_report": "numcheck.report.writing",
}

__all__ = ["card", "write_report"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _HOME:
        msg = f"module 'numcheck.report' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
