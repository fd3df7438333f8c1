# SPDX-License-Identifier: Apache-2.0
"""Which torch_npu, CANN and driver go together, as far as their makers have said.

From the table in the description of the torch_npu package, and from the release notes
of Ascend Extension for PyTorch 7.2.0 (which CANN each runs on), MindIE 2.1.RC1, and
CANN 8.5.0, 9.1.0 and 9.2.0 (which drivers each runs on).
"""

from __future__ import annotations

import re
from typing import Final, Literal

__all__ = ["RELEASED_FOR", "Fit", "cann_of", "fit", "oldest_driver", "order"]

Fit = Literal["released_for", "runs_on", "older", "newer"]
"""How a CANN stands to a torch_npu: the one it was released for; another one that it
is said to run on; older or newer than that, of which nothing is said."""

RELEASED_FOR: Final[dict[str, tuple[str, ...]]] = {
    "9.0.0": ("2.10.0", "2.9.0.post2", "2.8.0.post4", "2.7.1.post4"),
    "8.5.0": (
        "2.12.0rc1", "2.11.0rc1", "2.10.0rc2", "2.9.0", "2.8.0.post2", "2.7.1.post2",
        "2.6.0.post5",
    ),
    "8.3.RC1": ("2.8.0", "2.7.1", "2.6.0.post3", "2.1.0.post17"),
    "8.2.RC1": ("2.6.0", "2.5.1.post1", "2.1.0.post13"),
    "8.1.RC1": ("2.5.1", "2.4.0.post4", "2.3.1.post6", "2.1.0.post12"),
    "8.0.0": ("2.4.0.post2", "2.3.1.post4", "2.1.0.post10"),
    "8.0.RC3": ("2.4.0", "2.3.1.post2", "2.1.0.post8"),
    "8.0.RC2": ("2.3.1", "2.2.0.post2", "2.1.0.post6"),
    "8.0.RC1": ("2.2.0", "2.1.0.post4"),
}  # fmt: skip
"""The releases of torch_npu for each CANN."""

_TOGETHER: Final = ("8.0.RC2", "8.0.RC3", "8.0.0", "8.1.RC1", "8.2.RC1", "8.3.RC1")
"""What was released for one of these runs on all of them."""

_OLDEST_DRIVER: Final[dict[tuple[int, ...], str]] = {
    (8, 2): "24.1.RC2",
    (8, 5): "25.0",
    (9, 0): "25.0",
    (9, 1): "25.2",
    (9, 2): "25.3",
}


def order(version: str) -> tuple[int, ...]:
    """Return a version as numbers that sort; a candidate comes before its release.

    What follows (the community's ``.beta1``, a build) does not count.

    Example:
        >>> order("8.0.RC3") < order("8.0.0") == order("8.0.0.beta1") < order("8.1.RC1")
        True
    """
    match = re.match(r"(\d+)\.(\d+)(?:\.(RC)?(\d+))?", version, re.IGNORECASE)
    if match is None:
        return ()
    major, minor, candidate, last = match.groups()
    if last is None:
        return int(major), int(minor)
    return int(major), int(minor), int(candidate is None), int(last)


def cann_of(torch_npu: str) -> str | None:
    """Return the CANN that a torch_npu was released for; None where not known.

    Example:
        >>> cann_of("2.5.1.post1"), cann_of("1.0")
        ('8.2.RC1', None)
    """
    named = (cann for cann, releases in RELEASED_FOR.items() if torch_npu in releases)
    return next(named, None)


def fit(torch_npu: str, cann: str) -> Fit | None:
    """Return how a CANN stands to a torch_npu; None where nothing is known.

    Example:
        >>> fit("2.5.1.post1", "8.0.0"), fit("2.9.0", "8.0.0")
        ('runs_on', 'older')
    """
    wanted = cann_of(torch_npu)
    if wanted is None or not order(cann):
        return None
    if order(cann) == order(wanted):
        return "released_for"
    known = {order(c) for c in _TOGETHER}
    if {order(cann), order(wanted)} <= known:
        return "runs_on"
    return "older" if order(cann) < order(wanted) else "newer"


def oldest_driver(cann: str) -> str | None:
    """Return the oldest driver that a CANN runs on; None where not known.

    Example:
        >>> oldest_driver("9.1.0"), oldest_driver("5.1.RC1")
        ('25.2', None)
    """
    return _OLDEST_DRIVER.get(order(cann)[:2])
