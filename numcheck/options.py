# SPDX-License-Identifier: Apache-2.0
"""The keyword arguments of `instrument`, checked once, at the border."""

from __future__ import annotations

import dataclasses
import difflib
import os
from typing import TYPE_CHECKING, Any, Literal, get_args

from numcheck.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Level", "OnError", "Options", "options_from", "refuse_unknown"]

Level = Literal["watch", "anchors", "trace"]
OnError = Literal["raise", "warn", "record", "skip"]


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How a program is watched; the keyword arguments of `instrument`.

    Attributes:
        level: ``watch`` looks at what the step hands back and replays a failing step;
            ``anchors`` adds matmul, convolution and module outputs at every step;
            ``trace`` records every operator at every step.
        every: record a full trace with its float32 shadow every so many steps.
        audit_first: record that trace at the first step too.
        on_error: ``raise`` NonFiniteError, ``warn``, ``record`` silently, or ``skip``
            the update and go on.
        run: folder that keeps the trace; None keeps it in memory only.
        experiments: run the experiments that tell the cause of a failure.
        check_data: check the batch of every healthy step, too. It is copied to the
            host for that.
    """

    level: Level = "watch"
    every: int | None = None
    audit_first: bool = True
    on_error: OnError = "raise"
    run: str | os.PathLike[str] | None = None
    experiments: bool = True
    check_data: bool = False

    @property
    def wants_audits(self) -> bool:
        """Whether steps may be audited at all."""
        return self.audit_first or self.every is not None

    def __post_init__(self) -> None:
        """Check every field once, at the border.

        Raises:
            ArgumentError: a field has a value that is not one of those listed.
        """
        _check_choice("level", self.level, get_args(Level))
        _check_choice("on_error", self.on_error, get_args(OnError))
        run: object = self.run
        if run is not None and not (
            isinstance(run, str | os.PathLike) and os.fspath(run)
        ):
            msg = f"run must be the path of a folder, got {self.run!r}"
            raise ArgumentError(msg)
        if self.every is not None and (type(self.every) is not int or self.every < 1):
            msg = f"every must be a positive whole number of steps, got {self.every!r}"
            raise ArgumentError(msg)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        msg = f"{name} must be one of {listed}; got {value!r}"
        raise ArgumentError(msg)


def options_from(keywords: dict[str, Any], others: Iterable[str] = ()) -> Options:
    """Return the options in `keywords`, or say which keyword is not one.

    Args:
        keywords: what the user gave.
        others: further options of the caller's own, for what is suggested.

    Raises:
        ArgumentError: a keyword is no option, or has a value that cannot be used.

    Example:
        >>> options_from({"levle": "trace"})
        Traceback (most recent call last):
        numcheck.errors.ArgumentError: unknown option 'levle'; did you mean 'level'? ...
    """
    names = {f.name for f in dataclasses.fields(Options)}
    refuse_unknown(set(keywords) - names, names.union(others))
    return Options(**keywords)


def refuse_unknown(unknown: Iterable[str], known: Iterable[str]) -> None:
    """Say that a keyword is no option, and which one it may have been meant to be.

    Raises:
        ArgumentError: there is an unknown one.
    """
    for name in sorted(unknown):
        near = difflib.get_close_matches(name, sorted(known), n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ";"
        msg = f"unknown option {name!r}{meant} options are {', '.join(sorted(known))}"
        raise ArgumentError(msg)
