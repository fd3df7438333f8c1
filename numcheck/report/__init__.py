# SPDX-License-Identifier: Apache-2.0
"""How findings and traces are shown: terminal, page, JSON, SARIF, other tools.

Every name loads its module on first use; nothing here is imported while training is
healthy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numcheck.report.interchange import finding_from_json, finding_to_json
    from numcheck.report.json_report import findings_from_json
    from numcheck.report.tensorboard import log_trace, scalars
    from numcheck.report.terminal import card
    from numcheck.report.writing import write_report

_HOME = {
    "card": "numcheck.report.terminal",
    "finding_from_json": "numcheck.report.interchange",
    "finding_to_json": "numcheck.report.interchange",
    "findings_from_json": "numcheck.report.json_report",
    "log_trace": "numcheck.report.tensorboard",
    "scalars": "numcheck.report.tensorboard",
    "write_report": "numcheck.report.writing",
}

__all__ = [
    "card",
    "finding_from_json",
    "finding_to_json",
    "findings_from_json",
    "log_trace",
    "scalars",
    "write_report",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _HOME:
        msg = f"module 'numcheck.report' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
