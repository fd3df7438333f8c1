# SPDX-License-Identifier: Apache-2.0
"""Every exception numcheck raises, in one tree.

NumcheckError
├── ArgumentError(ValueError)          an argument has an unusable value
├── ArgumentTypeError(TypeError)       an argument has the wrong type
├── UnknownFormatError(ValueError)     no number format has that name
├── AmbiguousTargetError(TypeError)    `instrument` cannot tell whose object it got
├── MissingExtraError(ImportError)     a framework's extra is not installed
├── RunFolderError(ValueError)         a run folder is missing, foreign or torn
├── DumpError(ValueError)              a foreign dump cannot be read
└── NonFiniteError(FloatingPointError) the watched program broke; carries the Finding
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding

__all__ = [
    "AmbiguousTargetError",
    "ArgumentError",
    "ArgumentTypeError",
    "DumpError",
    "MissingExtraError",
    "NonFiniteError",
    "NumcheckError",
    "RunFolderError",
    "UnknownFormatError",
]


class NumcheckError(Exception):
    """Root of every exception that numcheck raises on purpose."""


class ArgumentError(NumcheckError, ValueError):
    """An argument has a value that cannot be used."""


class ArgumentTypeError(NumcheckError, TypeError):
    """An argument has a type that cannot be used."""


class UnknownFormatError(NumcheckError, ValueError):
    """No number format is known under the given name."""


class AmbiguousTargetError(NumcheckError, TypeError):
    """`numcheck.instrument` cannot tell which framework its argument belongs to."""


class MissingExtraError(NumcheckError, ImportError):
    """A feature needs an optional dependency that is not installed."""


class RunFolderError(NumcheckError, ValueError):
    """A run folder is missing, was not written by numcheck, or is damaged."""


class DumpError(NumcheckError, ValueError):
    """A dump written by another tool cannot be read."""


class NonFiniteError(NumcheckError, FloatingPointError):
    """The watched program broke.

    Attributes:
        finding: the most important `Finding`.
        findings: all findings of the step, the most important first.
    """

    def __init__(self, findings: tuple[Finding, ...], text: str) -> None:
        super().__init__(text)
        self.findings = findings

    @property
    def finding(self) -> Finding:
        """The most important finding."""
        return self.findings[0]
