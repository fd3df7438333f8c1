# SPDX-License-Identifier: Apache-2.0
"""Keeps an error inside numcheck from taking the training down."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from numcheck.errors import NonFiniteError
from numcheck.monitor import NumcheckWarning

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GoneError", "Guarded", "guarded"]


class GoneError(ReferenceError):
    """What is watched no longer exists; nothing is left to say of it."""


class Guarded(Protocol):
    """Whose methods are guarded."""

    is_asleep: bool
    """Whether its methods do nothing now."""

    def fault(self, where: str) -> None:
        """Record the error being handled, once for each place."""


S = TypeVar("S", bound=Guarded)
P = ParamSpec("P")


def guarded(
    where: str,
) -> Callable[[Callable[Concatenate[S, P], Any]], Callable[Concatenate[S, P], Any]]:
    """Make a method do nothing while asleep, and report its own errors as faults.

    It does nothing either once what is watched is gone.

    A finding passes that the user asked to be raised: as an error, or as a warning
    where the program turns warnings into errors.

    Args:
        where: key of the text that says what the method is.
    """

    def decorate(
        method: Callable[Concatenate[S, P], Any],
    ) -> Callable[Concatenate[S, P], Any]:
        @functools.wraps(method)
        def safe(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            if self.is_asleep:
                return None
            try:
                return method(self, *args, **kwargs)
            except (NonFiniteError, NumcheckWarning):
                raise
            except GoneError:
                # An optimizer goes on with the parameters of a model that nobody holds.
                return None
            except Exception:  # noqa: BLE001 - reported as N901; the training goes on
                self.fault(where)
                return None

        return safe

    return decorate
